// Shared by the instruction files: the engine lists and parameters most of them use.
#pragma once

#include <array>

#include "isa/act.hpp"
#include "isa/alu.hpp"
#include "isa/check.hpp"
#include "isa/eval.hpp"
#include "isa/op_spec.hpp"

namespace nkisim::isa {

inline constexpr std::array<EngineRule, 1> kVectorOnly = {{{Engine::kVector}}};
inline constexpr std::array<EngineRule, 1> kScalarOnly = {{{Engine::kScalar}}};
inline constexpr std::array<EngineRule, 1> kGpSimdOnly = {{{Engine::kGpSimd}}};
inline constexpr std::array<EngineRule, 1> kTensorOnly = {{{Engine::kTensor}}};
inline constexpr std::array<EngineRule, 2> kVectorOrGpSimd = {
    {{Engine::kVector}, {Engine::kGpSimd}}};
/// Any sequencer, sync first (control, semaphores, registers).
inline constexpr std::array<EngineRule, 5> kAnySequencer = {
    {{Engine::kSync}, {Engine::kTensor}, {Engine::kVector}, {Engine::kScalar}, {Engine::kGpSimd}}};

/// How the five comparisons of sequencer branches are spelled.
inline constexpr std::array<std::string_view, 6> kCompareChoices = {"lt", "le", "eq",
                                                                    "ne", "ge", "gt"};

[[nodiscard]] bool is_bitvec(AluOp op);
/// add, subtract, multiply: exact on 32-bit integers where the engine has integer arithmetic.
[[nodiscard]] bool has_exact_integer(AluOp op);
/// Rules every ALU operand pair obeys: a binary operator, bitvec only on integers and only on
/// VectorE, power only on GpSimd.
void check_binary_alu(std::string_view param, AluOp op, Engine engine,
                      std::initializer_list<const TensorRef*> operands);

}  // namespace nkisim::isa
