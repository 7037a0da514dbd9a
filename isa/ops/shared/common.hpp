// Declares checks of operands and steps of computation that most instructions share.
#pragma once

#include <array>

#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"
#include "isa/machine/op_context.hpp"
#include "isa/program/check.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

inline constexpr std::array<EngineRule, 1> kVectorOnly = {{{Engine::kVector}}};
inline constexpr std::array<EngineRule, 1> kScalarOnly = {{{Engine::kScalar}}};
inline constexpr std::array<EngineRule, 1> kGpSimdOnly = {{{Engine::kGpSimd}}};
inline constexpr std::array<EngineRule, 1> kTensorOnly = {{{Engine::kTensor}}};
inline constexpr std::array<EngineRule, 2> kVectorOrGpSimd = {
    {{Engine::kVector}, {Engine::kGpSimd}}};
/// On-chip copies: the Scalar engine has them from trn2 on.
inline constexpr std::array<EngineRule, 3> kCopyEngines = {
    {{Engine::kVector}, {Engine::kScalar, Generation::kV3}, {Engine::kGpSimd}}};
/// Any sequencer, sync first (control, semaphores, registers).
inline constexpr std::array<EngineRule, 5> kAnySequencer = {
    {{Engine::kSync}, {Engine::kTensor}, {Engine::kVector}, {Engine::kScalar}, {Engine::kGpSimd}}};

/// The spellings of the comparisons of sequencer branches.
inline constexpr std::array<std::string_view, 6> kCompareChoices = {"lt", "le", "eq",
                                                                    "ne", "ge", "gt"};

[[nodiscard]] bool is_bitvec(AluOp op);
/// add, subtract, multiply: exact on 32-bit integers where the engine has integer arithmetic.
[[nodiscard]] bool has_exact_integer(AluOp op);
/// Engine and generation rules of any operator: bitvec only on VectorE, power only on GpSimd,
/// abs_max and abs_min only on trn3's VectorE, rsqrt not on VectorE.
void check_alu_engine(std::string_view param, AluOp op, Engine engine, const Machine& machine);
/// An arithmetic operator with two operands, for instructions without a bitvec form.
void check_arithmetic(std::string_view param, AluOp op, Engine engine, const Machine& machine);
/// A [P,1] tile or a constant of an arithmetic operator: a tile must be float32.
void check_scalar_operand(std::string_view operand, const Arg& arg, std::int64_t rows);
/// Fails unless the dtype is an integer, as bitvec operators need.
void check_bit_operand(std::string_view operand, const TensorRef& ref, AluOp op);
/// Absent, or the constant 0 that unary operators ask for.
[[nodiscard]] bool is_absent_or_zero(const Arg& arg);
/// An operand and the operator that uses it: both present, or the operator unary and the operand
/// absent or 0.
void check_stage_operand(std::string_view op_param, AluOp op, std::string_view operand_param,
                         const Arg& operand);

/// One scalar operation of an instruction: x op operand, or operand op x with `reverse`, where the
/// operand is a constant or one value per row.
class Stage {
 public:
  Stage(OpContext& ctx, AluOp op, const Arg& operand, bool reverse, std::int64_t rows);
  /// out[i] = the operation on in[i] for row r; `out` may be `in`.
  void apply_to(std::int64_t r, const float* in, float* out, std::size_t n) const;

 private:
  AluOp op_;
  bool reverse_;
  Tile<float> operand_;
};
/// The same on a whole tile, in place.
void apply_stage(OpContext& ctx, AluOp op, const Arg& operand, bool reverse, const Tile<float>& x);
/// Piece i of `out`, `piece` bytes, is what is at byte `unit` * index[i] of `in`.
void gather_pieces(const std::byte* in, std::int64_t unit, const std::uint32_t* index,
                   std::int64_t count, std::int64_t piece, std::byte* out);
/// `count` copies of the element of `size` bytes (1, 2 or 4) at `element`.
void fill_elements(std::byte* out, const std::byte* element, std::int64_t size, std::int64_t count);
/// Clears what lies beyond the elements' width, or fills it with the elements' top bit.
void extend_zeros(Dtype dtype, const Tile<std::uint32_t>& x);
void extend_sign(Dtype dtype, const Tile<std::uint32_t>& x);
/// Widens shifted elements as their own width asks: zeros for a right shift. Other operators do not
/// see the upper bits.
void extend_for(AluOp op, Dtype dtype, const Tile<std::uint32_t>& x);

/// Values of row r of `in` in column r of the result: scans run along rows, vectors along columns.
[[nodiscard]] Tile<float> transposed(OpContext& ctx, const Tile<float>& in);

/// For ops whose first parameter is dst: one part of its dtype, without input.
void expand_as_dst(const Inst& inst, const Machine& machine, Expansion& out);
/// One part that writes some elements of dst and reads none: it is in/out for the others' sake.
void expand_over_dst(const Inst& inst, const Machine& machine, Expansion& out);

}  // namespace nkisim::isa
