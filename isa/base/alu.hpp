// Declares the ALU operators of nki.language: their names, the rules for their use and their
// evaluation over arrays. The list itself is isa/base/alu.def.
//
// Arithmetic is FP32 with IEEE rounding; a NaN result is the canonical quiet NaN (0x7fc00000),
// except through bypass, maximum, minimum, abs_max and abs_min, which return an operand untouched.
// `out` may be the same array as an operand but may not overlap one otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nkisim::isa {

enum class AluOp : std::uint8_t {
#define NKISIM_ALU_FLOAT(id, ...) id,
#define NKISIM_ALU_BITS(id, ...) id,
#define NKISIM_ALU_ABSENT(id, ...) id,
#include "isa/base/alu.def"
};
inline constexpr int kAluOpCount = 0
#define NKISIM_ALU_FLOAT(id, ...) +1
#define NKISIM_ALU_BITS(id, ...) +1
#define NKISIM_ALU_ABSENT(id, ...) +1
#include "isa/base/alu.def"
    ;

/// The pipe of an operator; the two may not be mixed in one instruction.
enum class AluKind : std::uint8_t {
  kArithmetic,
  kBitvec,
  kEither,  // bypass
  kAbsent,  // neither: the documents name it and no instruction has it (`doc`: what to use instead)
};

/// The reductions that may use an operator.
enum class AluReduction : std::uint8_t {
  kNone,
  kTensor,     // tensor_reduce and its relatives
  kPartition,  // only tensor_partition_reduce
  kActivate2,  // only the reduce stage of activate2
};

struct AluTraits {
  std::string_view name;
  std::string_view aliases;  // separated by blanks
  std::string_view doc;
  AluKind kind;
  int operands;  // 1 or 2
  AluReduction reduction;
  float identity;              // start of an FP32 reduction
  std::uint32_t bit_identity;  // start of a bitvec reduction
};

[[nodiscard]] const AluTraits& traits(AluOp op);
[[nodiscard]] std::string_view name(AluOp op);
/// Accepts the nki.language name or an alias, in any case; empty if unknown.
[[nodiscard]] std::optional<AluOp> parse_alu(std::string_view text);

/// out[i] = op(a[i], b[i]). A unary operator ignores `b`, which may then be null.
/// Throws Error for a bitvec operator.
void apply(AluOp op, const float* a, const float* b, float* out, std::size_t n);
/// out[i] = op(a[i], s), or op(s, a[i]) with `reverse`.
void apply_scalar(AluOp op, const float* a, float s, bool reverse, float* out, std::size_t n);
/// out[i] = op(a[i]) for a unary operator.
void apply_unary(AluOp op, const float* a, float* out, std::size_t n);
/// op(a, b) of one pair: for scans, where each result feeds the next.
[[nodiscard]] float apply_one(AluOp op, float a, float b);

/// Bitvec forms, for kBitvec and bypass; others throw Error.
void apply_bits(AluOp op, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* out,
                std::size_t n);
void apply_bits_scalar(AluOp op, const std::uint32_t* a, std::uint32_t s, bool reverse,
                       std::uint32_t* out, std::size_t n);

/// True if 32-bit integer arithmetic has the operator: arithmetic, comparisons and logic of two
/// operands.
[[nodiscard]] bool has_words(AluOp op);
/// True for operands that are int32; the others are uint32.
struct WordSigns {
  bool a = false, b = false;
};
/// Exact 32-bit integer arithmetic (GpSimd): sums and products wrap, comparisons and logic give 1
/// or 0. Throws Error for an operator that !has_words().
void apply_words(AluOp op, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* out,
                 std::size_t n, WordSigns signs);

/// The first of `count` results of add, subtract or multiply, from `begin` on, that wraps: int32
/// cannot hold the sum, difference or product of its int32 operands. `count` if none does, and for
/// other operators.
[[nodiscard]] std::size_t find_wrap(AluOp op, const std::uint32_t* a, const std::uint32_t* b,
                                    std::size_t count, std::size_t begin = 0);
/// The sum, difference or product of two int32 values, without wrapping.
[[nodiscard]] std::int64_t unwrapped(AluOp op, std::uint32_t a, std::uint32_t b);

/// op(... op(op(seed, x[0]), x[1]) ..., x[n-1]): strictly in order in FP32. The documents leave the
/// order of a hardware reduction unspecified; this one makes results defined. `average` divides
/// the sum, seed included, by n. Throws Error for an operator that cannot reduce.
[[nodiscard]] float reduce(AluOp op, const float* x, std::size_t n, float seed);
[[nodiscard]] std::uint32_t reduce_bits(AluOp op, const std::uint32_t* x, std::size_t n,
                                        std::uint32_t seed);

/// A strided matrix to be reduced along its columns; strides in elements.
struct Rows {
  const float* data;
  std::size_t rows;
  std::size_t columns;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;
};
/// `in_out[r]` = reduce of row r, with in_out[r] as its seed; each row strictly in order.
void reduce_rows(AluOp op, const Rows& x, float* in_out);

}  // namespace nkisim::isa
