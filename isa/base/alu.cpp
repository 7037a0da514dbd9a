// Evaluates each ALU operator of nki.language over arrays of floats, bits or integers.

#include "isa/base/alu.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "isa/base/clones.hpp"
#include "isa/base/error.hpp"
#include "isa/base/fp_math.hpp"
#include "isa/base/fp_wrap.hpp"
#include "isa/base/names.hpp"

namespace nkisim::isa {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One type per operator, so that the loops below are instantiated with the operator inlined.
#define NKISIM_ALU_FLOAT(id, text, aliases, operands, reduction, identity, doc, ...)              \
  struct Float_##id {                                                                             \
    static float eval([[maybe_unused]] float a, [[maybe_unused]] float b) { return __VA_ARGS__; } \
  };
#define NKISIM_ALU_BITS(id, text, aliases, operands, reduction, identity, doc, ...) \
  struct Bits_##id {                                                                \
    static std::uint32_t eval([[maybe_unused]] std::uint32_t a,                     \
                              [[maybe_unused]] std::uint32_t b) {                   \
      return __VA_ARGS__;                                                           \
    }                                                                               \
  };
#define NKISIM_ALU_ABSENT(...)
#include "isa/base/alu.def"

// Operators that return an operand keep its bits; the payload of a computed NaN would depend on
// how the compiler orders operands.
constexpr bool returns_operand(AluOp op) {
  using enum AluOp;
  return op == kBypass || op == kMaximum || op == kMinimum || op == kAbsMax || op == kAbsMin;
}

template <class F, AluOp Op>
float evaluate(float a, float b) {
  const float r = F::eval(a, b);
  if constexpr (returns_operand(Op)) return r;
  return r != r ? kNan : r;
}

template <class F, AluOp Op>
NKISIM_CLONES void float_loop(const float* a, const float* b, float* out, std::size_t n) {
  NKISIM_IVDEP
  for (std::size_t i = 0; i < n; ++i) out[i] = evaluate<F, Op>(a[i], b[i]);
}

template <class F>
NKISIM_CLONES void bits_loop(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* out,
                             std::size_t n) {
  NKISIM_IVDEP
  for (std::size_t i = 0; i < n; ++i) out[i] = F::eval(a[i], b[i]);
}

template <class F>
std::uint32_t bits_fold(const std::uint32_t* x, std::size_t n, std::uint32_t seed) {
  for (std::size_t i = 0; i < n; ++i) seed = F::eval(seed, x[i]);
  return seed;
}

// Reduces `Chains` rows at once. Each sum is one dependence chain that waits for its own latency,
// so independent rows side by side fill the pipeline without changing any row's order.
template <class F, AluOp Op, int Chains>
void float_fold(const float* x, std::ptrdiff_t row_stride, std::ptrdiff_t column_stride,
                std::size_t columns, float* in_out) {
  std::array<float, Chains> sum;
  std::array<const float*, Chains> at;
  for (std::size_t r = 0; r < Chains; ++r) {
    sum[r] = in_out[r];
    at[r] = x + static_cast<std::ptrdiff_t>(r) * row_stride;
  }
  std::ptrdiff_t offset = 0;
  for (std::size_t c = 0; c < columns; ++c, offset += column_stride) {
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Chains; ++r) sum[r] = F::eval(sum[r], at[r][offset]);
  }
  for (std::size_t r = 0; r < Chains; ++r) {
    in_out[r] = sum[r] != sum[r] && !returns_operand(Op) ? kNan : sum[r];
  }
}

using FloatLoop = void (*)(const float*, const float*, float*, std::size_t);
using FloatFold = void (*)(const float*, std::ptrdiff_t, std::ptrdiff_t, std::size_t, float*);
using BitsLoop = void (*)(const std::uint32_t*, const std::uint32_t*, std::uint32_t*, std::size_t);

constexpr std::size_t kChains = 8;

struct Row {
  AluTraits traits;
  float (*one)(float, float) = nullptr;
  FloatLoop float_loop = nullptr;
  FloatFold fold_one = nullptr;
  FloatFold fold_many = nullptr;
  BitsLoop bits_loop = nullptr;
  std::uint32_t (*bits_fold)(const std::uint32_t*, std::size_t, std::uint32_t) = nullptr;
};

template <class F, AluOp Op, AluReduction Reduction>
Row float_row(AluTraits traits) {
  Row row{.traits = traits, .one = evaluate<F, Op>, .float_loop = float_loop<F, Op>};
  if constexpr (Reduction != AluReduction::kNone) {
    row.fold_one = float_fold<F, Op, 1>;
    row.fold_many = float_fold<F, Op, kChains>;
  }
  return row;
}

struct CopyBits {
  static std::uint32_t eval(std::uint32_t a, std::uint32_t /*b*/) { return a; }
};

const std::array<Row, kAluOpCount>& rows() {
  using enum AluKind;
  static const std::array<Row, kAluOpCount> kRows = [] {
    std::array<Row, kAluOpCount> table{
#define NKISIM_ALU_FLOAT(id, text, aliases, operands, reduction, identity, doc, ...) \
  float_row<Float_##id, AluOp::id, AluReduction::reduction>(                         \
      {text, aliases, doc, kArithmetic, operands, AluReduction::reduction, identity, 0U}),
#define NKISIM_ALU_BITS(id, text, aliases, operands, reduction, identity, doc, ...)               \
  Row{.traits = {text, aliases, doc, kBitvec, operands, AluReduction::reduction, 0.0F, identity}, \
      .bits_loop = bits_loop<Bits_##id>,                                                          \
      .bits_fold = bits_fold<Bits_##id>},
#define NKISIM_ALU_ABSENT(id, text, aliases, instead) \
  Row{.traits = {text, aliases, instead, kAbsent, 2, AluReduction::kNone, 0.0F, 0U}},
#include "isa/base/alu.def"
    };
    Row& bypass = table[static_cast<std::size_t>(AluOp::kBypass)];
    bypass.traits.kind = kEither;
    bypass.bits_loop = bits_loop<CopyBits>;
    return table;
  }();
  return kRows;
}

const Row& row_of(AluOp op) { return rows().at(static_cast<std::size_t>(op)); }

// The row of `op`, or an Error if it has no such form.
template <class Form>
const Row& require(AluOp op, Form Row::*form, const char* required) {
  const Row& row = row_of(op);
  if (row.*form == nullptr)
    fail(Rule::operator_not_taken, "op", std::string(row.traits.name), required);
  return row;
}

// Runs `loop` against a scalar by way of a short broadcast array, which stays in the first-level
// cache: half the code of a scalar version of every loop at the same speed.
template <class T>
void broadcast(void (*loop)(const T*, const T*, T*, std::size_t), const T* a, T s, bool reverse,
               T* out, std::size_t n) {
  constexpr std::size_t kChunk = 512;
  std::array<T, kChunk> scalars;
  std::fill_n(scalars.begin(), std::min(n, kChunk), s);
  for (std::size_t i = 0; i < n; i += kChunk) {
    const std::size_t count = std::min(kChunk, n - i);
    const T* left = reverse ? scalars.data() : a + i;
    const T* right = reverse ? a + i : scalars.data();
    loop(left, right, out + i, count);
  }
}

using WordLoop = void (*)(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* out,
                          std::size_t n, WordSigns signs);

std::int64_t word(std::uint32_t bits, bool is_signed) {
  return is_signed ? static_cast<std::int32_t>(bits) : std::int64_t{bits};
}

// `fn` of the operands' values; the result keeps its low 32 bits.
template <auto fn>
void word_loop_of(const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* out, std::size_t n,
                  WordSigns signs) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = static_cast<std::uint32_t>(fn(word(a[i], signs.a), word(b[i], signs.b)));
  }
}

// Null for an operator that 32-bit integer arithmetic has not.
WordLoop word_loop(AluOp op) {
  using I = std::int64_t;
  switch (op) {
    case AluOp::kAdd:
      return word_loop_of<[](I a, I b) { return a + b; }>;
    case AluOp::kSubtract:
      return word_loop_of<[](I a, I b) { return a - b; }>;
    case AluOp::kMultiply:  // of the low halves: the whole product may not fit
      return word_loop_of<[](I a, I b) {
        return static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b);
      }>;
    case AluOp::kMaximum:
      return word_loop_of<[](I a, I b) { return std::max(a, b); }>;
    case AluOp::kMinimum:
      return word_loop_of<[](I a, I b) { return std::min(a, b); }>;
    case AluOp::kEqual:
      return word_loop_of<[](I a, I b) { return (a == b); }>;
    case AluOp::kNotEqual:
      return word_loop_of<[](I a, I b) { return (a != b); }>;
    case AluOp::kGreaterEqual:
      return word_loop_of<[](I a, I b) { return (a >= b); }>;
    case AluOp::kGreater:
      return word_loop_of<[](I a, I b) { return (a > b); }>;
    case AluOp::kLessEqual:
      return word_loop_of<[](I a, I b) { return (a <= b); }>;
    case AluOp::kLess:
      return word_loop_of<[](I a, I b) { return (a < b); }>;
    case AluOp::kLogicalAnd:
      return word_loop_of<[](I a, I b) { return a != 0 && b != 0; }>;
    case AluOp::kLogicalOr:
      return word_loop_of<[](I a, I b) { return a != 0 || b != 0; }>;
    case AluOp::kLogicalXor:
      return word_loop_of<[](I a, I b) { return (a != 0) != (b != 0); }>;
    default:
      return nullptr;
  }
}

}  // namespace

const AluTraits& traits(AluOp op) { return row_of(op).traits; }
std::string_view name(AluOp op) { return traits(op).name; }

std::optional<AluOp> parse_alu(std::string_view text) {
  const std::string lower = lower_case(text);
  for (std::size_t i = 0; i < rows().size(); ++i) {
    const AluTraits& t = rows()[i].traits;
    if (t.name == lower || contains_word(t.aliases, lower)) return static_cast<AluOp>(i);
  }
  return std::nullopt;
}

void apply(AluOp op, const float* a, const float* b, float* out, std::size_t n) {
  const Row& row = require(op, &Row::float_loop, "an arithmetic operator");
  row.float_loop(a, row.traits.operands == 1 ? a : b, out, n);
}

void apply_unary(AluOp op, const float* a, float* out, std::size_t n) {
  const Row& row = require(op, &Row::float_loop, "an arithmetic operator");
  if (row.traits.operands != 1)
    fail(Rule::operator_not_taken, "op", std::string(row.traits.name), "a unary operator");
  row.float_loop(a, a, out, n);
}

void apply_scalar(AluOp op, const float* a, float s, bool reverse, float* out, std::size_t n) {
  const Row& row = require(op, &Row::float_loop, "an arithmetic operator");
  if (row.traits.operands == 1 && !reverse) return row.float_loop(a, a, out, n);
  broadcast(row.float_loop, a, s, reverse, out, n);
}

float apply_one(AluOp op, float a, float b) {
  return require(op, &Row::one, "an arithmetic operator").one(a, b);
}

void apply_bits(AluOp op, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* out,
                std::size_t n) {
  const Row& row = require(op, &Row::bits_loop, "a bitvec operator");
  row.bits_loop(a, row.traits.operands == 1 ? a : b, out, n);
}

void apply_bits_scalar(AluOp op, const std::uint32_t* a, std::uint32_t s, bool reverse,
                       std::uint32_t* out, std::size_t n) {
  const Row& row = require(op, &Row::bits_loop, "a bitvec operator");
  if (row.traits.operands == 1 && !reverse) return row.bits_loop(a, a, out, n);
  broadcast(row.bits_loop, a, s, reverse, out, n);
}

bool has_words(AluOp op) { return word_loop(op) != nullptr; }

void apply_words(AluOp op, const std::uint32_t* a, const std::uint32_t* b, std::uint32_t* out,
                 std::size_t n, WordSigns signs) {
  const WordLoop loop = word_loop(op);
  if (loop == nullptr) {
    fail(Rule::operator_not_taken, "op", std::string(name(op)),
         "an operator that 32-bit integer arithmetic has");
  }
  loop(a, b, out, n, signs);
}

std::int64_t unwrapped(AluOp op, std::uint32_t a, std::uint32_t b) {
  const std::int64_t x = static_cast<std::int32_t>(a), y = static_cast<std::int32_t>(b);
  if (op == AluOp::kMultiply) return x * y;
  return op == AluOp::kAdd ? x + y : x - y;
}

std::size_t find_wrap(AluOp op, const std::uint32_t* a, const std::uint32_t* b, std::size_t count,
                      std::size_t begin) {
  if (op != AluOp::kAdd && op != AluOp::kSubtract && op != AluOp::kMultiply) return count;
  for (std::size_t i = begin; i < count; ++i) {
    const std::int64_t exact = unwrapped(op, a[i], b[i]);
    if (exact != static_cast<std::int32_t>(exact)) return i;
  }
  return count;
}

float reduce(AluOp op, const float* x, std::size_t n, float seed) {
  reduce_rows(op, {x, 1, n, 0, 1}, &seed);
  return seed;
}

std::uint32_t reduce_bits(AluOp op, const std::uint32_t* x, std::size_t n, std::uint32_t seed) {
  const Row& row = require(op, &Row::bits_fold, "a bitvec reduction");
  if (row.traits.reduction == AluReduction::kNone) {
    fail(Rule::operator_not_taken, "op", std::string(row.traits.name), "a bitvec reduction");
  }
  return row.bits_fold(x, n, seed);
}

void reduce_rows(AluOp op, const Rows& x, float* in_out) {
  if (op == AluOp::kAverage) {
    reduce_rows(AluOp::kAdd, x, in_out);
    for (std::size_t r = 0; r < x.rows; ++r) in_out[r] /= static_cast<float>(x.columns);
    return;
  }
  const Row& row = require(op, &Row::fold_one, "a reduction operator");
  const auto data_row = [&](std::size_t r) {
    return x.data + static_cast<std::ptrdiff_t>(r) * x.row_stride;
  };
  if (x.row_stride == 1 && x.rows >= kChains) {  // rows lie side by side: whole vectors of them
    for (std::size_t c = 0; c < x.columns; ++c) {
      const float* column = x.data + static_cast<std::ptrdiff_t>(c) * x.column_stride;
      row.float_loop(in_out, column, in_out, x.rows);
    }
    return;
  }
  std::size_t r = 0;
  for (; r + kChains <= x.rows; r += kChains) {
    row.fold_many(data_row(r), x.row_stride, x.column_stride, x.columns, in_out + r);
  }
  for (; r < x.rows; ++r) {
    row.fold_one(data_row(r), x.row_stride, x.column_stride, x.columns, in_out + r);
  }
}

}  // namespace nkisim::isa
