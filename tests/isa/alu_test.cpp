// Tests the ALU operators against their definitions, one value at a time.
#include "isa/base/alu.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "isa/base/error.hpp"

using namespace nkisim::isa;  // NOLINT(google-build-using-namespace)

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::uint32_t kCanonicalNan = 0x7fc00000U;

std::uint32_t bits(float f) { return std::bit_cast<std::uint32_t>(f); }
float truth(bool b) { return b ? 1.0F : 0.0F; }

// The meaning of each arithmetic operator, written with libm and no tricks.
const std::map<AluOp, float (*)(float, float)> kDefinitions = {
    {AluOp::kAdd, [](float a, float b) -> float { return a + b; }},
    {AluOp::kSubtract, [](float a, float b) -> float { return a - b; }},
    {AluOp::kMultiply, [](float a, float b) -> float { return a * b; }},
    {AluOp::kMaximum,
     [](float a, float b) -> float {
       return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
     }},
    {AluOp::kMinimum,
     [](float a, float b) -> float {
       return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
     }},
    {AluOp::kEqual, [](float a, float b) -> float { return truth(a == b); }},
    {AluOp::kNotEqual, [](float a, float b) -> float { return truth(a != b); }},
    {AluOp::kGreaterEqual, [](float a, float b) -> float { return truth(a >= b); }},
    {AluOp::kGreater, [](float a, float b) -> float { return truth(a > b); }},
    {AluOp::kLessEqual, [](float a, float b) -> float { return truth(a <= b); }},
    {AluOp::kLess, [](float a, float b) -> float { return truth(a < b); }},
    {AluOp::kLogicalAnd, [](float a, float b) -> float { return truth(a != 0 && b != 0); }},
    {AluOp::kLogicalOr, [](float a, float b) -> float { return truth(a != 0 || b != 0); }},
    {AluOp::kLogicalXor, [](float a, float b) -> float { return truth((a != 0) != (b != 0)); }},
    {AluOp::kLogicalNot, [](float a, float) -> float { return truth(a == 0); }},
    {AluOp::kPower,
     [](float a, float b) -> float {
       return static_cast<float>(
           std::pow(static_cast<long double>(a), static_cast<long double>(b)));
     }},
    {AluOp::kAbs, [](float a, float) -> float { return std::fabs(a); }},
    {AluOp::kRsqrt,
     [](float a, float) -> float {
       return static_cast<float>(1 / std::sqrt(static_cast<long double>(a)));
     }},
    {AluOp::kReciprocal, [](float a, float) -> float { return 1.0F / a; }},
    {AluOp::kSquare, [](float a, float) -> float { return a * a; }},
    {AluOp::kRelu, [](float a, float) -> float { return std::isnan(a) ? a : std::max(a, 0.0F); }},
    {AluOp::kAverage, [](float a, float b) -> float { return a + b; }},
    {AluOp::kBypass, [](float a, float) -> float { return a; }},
    {AluOp::kAbsMax, [](float a, float b) -> float { return std::fabs(a) > std::fabs(b) ? a : b; }},
    {AluOp::kAbsMin, [](float a, float b) -> float { return std::fabs(a) < std::fabs(b) ? a : b; }},
    {AluOp::kWrapPi,  // the C library reduces its arguments exactly
     [](float a, float) -> float {
       const auto x = static_cast<long double>(a);
       const bool inside = std::fabs(a) <= 3.14159274F;
       return inside ? a : static_cast<float>(std::atan2(std::sin(x), std::cos(x)));
     }},
    {AluOp::kLanguageFmod,
     [](float a, float b) -> float {
       return static_cast<float>(std::fmod(static_cast<double>(a), static_cast<double>(b)));
     }},
    {AluOp::kLanguageMod,  // a - b floor(a / b), the remainder exact, in double
     [](float a, float b) -> float {
       const double rest = std::fmod(static_cast<double>(a), static_cast<double>(b));
       const bool other_sign = rest != 0.0 && (rest < 0.0) != (b < 0.0F);
       return static_cast<float>(rest + (other_sign ? static_cast<double>(b) : 0.0));
     }},
};

float reference(AluOp op, float a, float b) {
  const auto it = kDefinitions.find(op);
  if (it == kDefinitions.end()) FAIL("an operator without a reference");
  return it->second(a, b);
}

// Equal as numbers (-0 is 0, NaN is NaN); power and wrap_pi may differ in the last place, as their
// references are rounded twice.
bool agrees(AluOp op, float result, float expected) {
  if (std::isnan(expected)) return std::isnan(result);
  if (result == expected) return true;
  const bool twice = op == AluOp::kPower || op == AluOp::kWrapPi;
  return twice && std::nextafter(result, expected) == expected;
}

std::vector<AluOp> arithmetic() {
  std::vector<AluOp> ops;
  for (int i = 0; i < kAluOpCount; ++i) {
    const AluKind kind = traits(static_cast<AluOp>(i)).kind;
    if (kind != AluKind::kBitvec && kind != AluKind::kAbsent) ops.push_back(static_cast<AluOp>(i));
  }
  return ops;
}

// Every pair of interesting values, then random bit patterns and ordinary numbers.
void operands(std::vector<float>& a, std::vector<float>& b) {
  const std::array<float, 22> values = {
      0.0F, -0.0F, 1.0F, -1.0F, 0.5F,   2.0F,  -2.0F,  3.0F,  -3.0F,  2.5F,        -2.5F,
      kInf, -kInf, kNan, -kNan, 1e-45F, 1e38F, -1e38F, 3e38F, 1e-38F, 16777217.0F, 0.99999994F};
  for (const float x : values) {
    for (const float y : values) {
      a.push_back(x);
      b.push_back(y);
    }
  }
  std::mt19937 random(7);
  std::uniform_real_distribution<float> ordinary(-20.0F, 20.0F);
  for (int i = 0; i < 20000; ++i) {
    a.push_back(i % 2 == 0 ? ordinary(random)
                           : std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    b.push_back(i % 3 == 0 ? std::bit_cast<float>(static_cast<std::uint32_t>(random()))
                           : ordinary(random));
  }
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return bits(x) == bits(y); });
}

}  // namespace

TEST_CASE("arithmetic operators agree with their definitions", "[alu]") {
  std::vector<float> a, b;
  operands(a, b);
  std::vector<float> out(a.size());
  for (const AluOp op : arithmetic()) {
    apply(op, a.data(), b.data(), out.data(), a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float expected = reference(op, a[i], b[i]);
      const bool operand_nan =
          std::isnan(out[i]) &&
          (op == AluOp::kBypass || op == AluOp::kMaximum || op == AluOp::kMinimum ||
           op == AluOp::kAbsMax || op == AluOp::kAbsMin);
      const bool canonical = !std::isnan(out[i]) || operand_nan || bits(out[i]) == kCanonicalNan;
      if (agrees(op, out[i], expected) && canonical &&
          bits(apply_one(op, a[i], b[i])) == bits(out[i]))
        continue;
      CAPTURE(name(op), a[i], b[i], out[i], expected, bits(out[i]), i);
      REQUIRE(agrees(op, out[i], expected));
      REQUIRE(canonical);
      REQUIRE(bits(apply_one(op, a[i], b[i])) == bits(out[i]));
    }
  }
}

TEST_CASE("power is exact where the result is a small number", "[alu]") {
  for (int base = -12; base <= 12; ++base) {
    for (int exponent = 0; exponent <= 6; ++exponent) {
      const float expected = static_cast<float>(std::pow(base, exponent));
      CHECK(apply_one(AluOp::kPower, static_cast<float>(base), static_cast<float>(exponent)) ==
            expected);
    }
  }
  CHECK(apply_one(AluOp::kPower, 2.25F, 0.5F) == 1.5F);
  CHECK(apply_one(AluOp::kPower, 4.0F, -0.5F) == 0.5F);
  CHECK(bits(apply_one(AluOp::kPower, -0.0F, -3.0F)) == bits(-kInf));
  CHECK(bits(apply_one(AluOp::kPower, -0.0F, 3.0F)) == bits(-0.0F));
}

// Recorded on a host with AVX-512; a host of another kind must produce the same bits.
TEST_CASE("operators have the same bits on every host", "[alu]") {
  std::mt19937 random(3);
  std::vector<float> a(20000), b(20000), out(20000);
  for (float& f : a) f = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  for (float& f : b) f = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0xc7ffffffU);
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const AluOp op : arithmetic()) {
    apply(op, a.data(), b.data(), out.data(), a.size());
    for (const float f : out) hash = (hash ^ bits(f)) * 0x100000001b3U;
  }
  CHECK(hash == 0xcc1df07ed39e1ec9U);
}

TEST_CASE("signed results follow the documents", "[alu]") {
  CHECK(apply_one(AluOp::kAbsMax, -3.0F, 2.0F) == -3.0F);
  CHECK(apply_one(AluOp::kAbsMax, -3.0F, 3.0F) == 3.0F);  // a tie: the second
  CHECK(apply_one(AluOp::kAbsMin, 3.0F, -3.0F) == -3.0F);
}

TEST_CASE("operators that no instruction has cannot be evaluated", "[alu]") {
  using enum AluOp;
  for (const AluOp op : {kDivide, kMod, kFmod, kArithShiftRight}) {
    CAPTURE(name(op));
    CHECK(traits(op).kind == AluKind::kAbsent);
    CHECK_THROWS_AS(apply_one(op, 1.0F, 2.0F), Error);
    std::uint32_t word = 1;
    CHECK_THROWS_AS(apply_bits(op, &word, &word, &word, 1), Error);
  }
}

TEST_CASE("scalar forms equal a broadcast operand, at every length", "[alu]") {
  std::vector<float> a, b;
  operands(a, b);
  a.resize(1500);
  for (const AluOp op : arithmetic()) {
    for (const std::size_t n : {0, 1, 5, 16, 33, 511, 512, 513, 1500}) {
      for (const bool reverse : {false, true}) {
        const std::vector<float> scalars(a.size(), 1.75F);
        std::vector<float> expected = a;
        std::vector<float> out = a;  // in place
        apply(op, reverse ? scalars.data() : a.data(), reverse ? a.data() : scalars.data(),
              expected.data(), n);
        apply_scalar(op, out.data(), 1.75F, reverse, out.data(), n);
        CAPTURE(name(op), n, reverse);
        REQUIRE(same_bits(out, expected));
      }
    }
  }
  float out = 0;
  const float minus_two = -2.0F;
  apply_unary(AluOp::kSquare, &minus_two, &out, 1);
  CHECK(out == 4.0F);
}

TEST_CASE("bitvec operators work on patterns", "[alu]") {
  using enum AluOp;
  const std::vector<std::uint32_t> a = {0xf0f0f0f0U, 0x80000001U, 0x12345678U,
                                        0xffffffffU, 1U,          0x80000000U};
  const std::vector<std::uint32_t> b = {0x0ff00ff0U, 1U, 4U, 31U, 32U, 200U};
  std::vector<std::uint32_t> out(a.size());
  const auto run = [&](AluOp op) {
    apply_bits(op, a.data(), b.data(), out.data(), a.size());
    return out;
  };
  using Words = std::vector<std::uint32_t>;
  CHECK(run(kInvert) == Words{0x0f0f0f0fU, 0x7ffffffeU, 0xedcba987U, 0U, 0xfffffffeU, 0x7fffffffU});
  CHECK(run(kBitwiseAnd) == Words{0x00f000f0U, 1U, 0U, 31U, 0U, 0U});
  CHECK(run(kBitwiseOr) ==
        Words{0xfff0fff0U, 0x80000001U, 0x1234567cU, 0xffffffffU, 33U, 0x800000c8U});
  CHECK(run(kBitwiseXor) ==
        Words{0xff00ff00U, 0x80000000U, 0x1234567cU, 0xffffffe0U, 33U, 0x800000c8U});
  CHECK(run(kLeftShift) == Words{0U, 2U, 0x23456780U, 0x80000000U, 0U, 0U});
  CHECK(run(kRightShift) == Words{0U, 0x40000000U, 0x01234567U, 1U, 0U, 0U});
  CHECK(run(kBypass) == a);
  apply_bits_scalar(kLeftShift, b.data(), 1U, false, out.data(), 2);
  CHECK(out[0] == 0x1fe01fe0U);
  apply_bits_scalar(kLeftShift, b.data() + 1, 1U, true, out.data(), 2);
  CHECK(out[1] == 16U);
}

TEST_CASE("integer arithmetic is exact and wraps", "[alu]") {
  const std::vector<std::uint32_t> a = {16777217U, 0xffffffffU, 65537U};
  const std::vector<std::uint32_t> b = {16777216U, 2U, 65537U};
  std::vector<std::uint32_t> out(3);
  const auto run = [&](AluOp op, const std::vector<std::uint32_t>& x,
                       const std::vector<std::uint32_t>& y, WordSigns signs = {}) {
    apply_words(op, x.data(), y.data(), out.data(), 3, signs);
    return out;
  };
  apply_words(AluOp::kAdd, a.data(), b.data(), out.data(), 3, {});
  CHECK(out == std::vector<std::uint32_t>{33554433U, 1U, 131074U});
  apply_words(AluOp::kSubtract, b.data(), a.data(), out.data(), 3, {});
  CHECK(out == std::vector<std::uint32_t>{0xffffffffU, 3U, 0U});
  apply_words(AluOp::kMultiply, a.data(), b.data(), out.data(), 3, {});
  CHECK(out == std::vector<std::uint32_t>{0x01000000U, 0xfffffffeU, 131073U});
  // 0xffffffff is 2^32 - 1, or -1 where its operand is int32.
  CHECK(run(AluOp::kMaximum, a, b) == std::vector<std::uint32_t>{16777217U, 0xffffffffU, 65537U});
  CHECK(run(AluOp::kMaximum, a, b, {true, true}) ==
        std::vector<std::uint32_t>{16777217U, 2U, 65537U});
  CHECK(run(AluOp::kLess, a, b) == std::vector<std::uint32_t>{0U, 0U, 0U});
  CHECK(run(AluOp::kLess, a, b, {true, false}) == std::vector<std::uint32_t>{0U, 1U, 0U});
  CHECK_FALSE(has_words(AluOp::kPower));
  CHECK_THROWS_AS(run(AluOp::kPower, a, b), Error);
}

TEST_CASE("reductions are sequential in every layout", "[alu]") {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> value(-3.0F, 3.0F);
  for (const AluOp op : arithmetic()) {
    if (traits(op).reduction == AluReduction::kNone || op == AluOp::kAverage) continue;
    for (const std::size_t rows : {1, 3, 7, 8, 9, 16, 21}) {
      for (const std::size_t columns : {0, 1, 2, 13}) {
        for (const bool column_major : {false, true}) {
          std::vector<float> x(rows * columns + 1);
          for (float& f : x) f = value(random);
          const auto row_stride = static_cast<std::ptrdiff_t>(column_major ? 1 : columns);
          const auto column_stride = static_cast<std::ptrdiff_t>(column_major ? rows : 1);
          std::vector<float> out(rows, traits(op).identity);
          std::vector<float> expected = out;
          reduce_rows(op, {x.data(), rows, columns, row_stride, column_stride}, out.data());
          for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t c = 0; c < columns; ++c) {
              const std::size_t at = column_major ? c * rows + r : r * columns + c;
              expected[r] = apply_one(op, expected[r], x[at]);
            }
          }
          CAPTURE(name(op), rows, columns, column_major);
          REQUIRE(same_bits(out, expected));
        }
      }
    }
  }
}

TEST_CASE("reductions start at the seed and keep the order of addition", "[alu]") {
  const std::array<float, 4> x = {1.0F, 1e8F, 1.0F, -1e8F};
  CHECK(reduce(AluOp::kAdd, x.data(), 4, 0.0F) == 0.0F);  // a tree would give another answer
  const std::array<float, 4> y = {1e8F, -1e8F, 1.0F, 1.0F};
  CHECK(reduce(AluOp::kAdd, y.data(), 4, 0.0F) == 2.0F);
  CHECK(reduce(AluOp::kAverage, y.data(), 4, 0.0F) == 0.5F);
  CHECK(reduce(AluOp::kMaximum, x.data(), 0, traits(AluOp::kMaximum).identity) == -kInf);
  CHECK(
      std::isnan(reduce(AluOp::kMinimum, std::array<float, 3>{1.0F, kNan, 0.0F}.data(), 3, kInf)));
  CHECK(bits(reduce(AluOp::kAdd, std::array<float, 2>{kInf, -kInf}.data(), 2, 0.0F)) ==
        kCanonicalNan);
  const std::array<std::uint32_t, 3> words = {0xffU, 0x0fU, 0x3cU};
  CHECK(reduce_bits(AluOp::kBitwiseAnd, words.data(), 3, traits(AluOp::kBitwiseAnd).bit_identity) ==
        0x0cU);
  CHECK(reduce_bits(AluOp::kBitwiseXor, words.data(), 3, 0U) == 0xccU);
  CHECK(reduce_bits(AluOp::kBitwiseOr, words.data(), 3, 0x100U) == 0x1ffU);
}

TEST_CASE("an operator refuses a form it does not have", "[alu]") {
  float f = 1.0F;
  std::uint32_t u = 1U;
  CHECK_THROWS_AS(apply(AluOp::kBitwiseAnd, &f, &f, &f, 1), Error);
  CHECK_THROWS_AS(apply_bits(AluOp::kAdd, &u, &u, &u, 1), Error);
  CHECK_THROWS_AS(reduce(AluOp::kDivide, &f, 1, 0.0F), Error);
  CHECK_THROWS_AS(reduce_bits(AluOp::kLeftShift, &u, 1, 0U), Error);
  CHECK_THROWS_AS(apply_unary(AluOp::kAdd, &f, &f, 1), Error);
}

TEST_CASE("operator names parse, are unique and documented", "[alu]") {
  std::set<std::string> seen;
  for (int i = 0; i < kAluOpCount; ++i) {
    const auto op = static_cast<AluOp>(i);
    CAPTURE(name(op));
    CHECK(parse_alu(name(op)) == op);
    CHECK(seen.insert(std::string(name(op))).second);
    CHECK_FALSE(traits(op).doc.empty());
    CHECK((traits(op).operands == 1 || traits(op).operands == 2));
  }
  CHECK(parse_alu("max") == AluOp::kMaximum);
  CHECK(parse_alu("MULTIPLY") == AluOp::kMultiply);
  CHECK(parse_alu("mult") == AluOp::kMultiply);
  CHECK(parse_alu("is_equal") == AluOp::kEqual);
  CHECK(parse_alu("bitwise_not") == AluOp::kInvert);
  CHECK(parse_alu("pow") == AluOp::kPower);
  CHECK_FALSE(parse_alu("sqrt"));
  CHECK_FALSE(parse_alu(""));
  CHECK(traits(AluOp::kAbsMax).reduction == AluReduction::kActivate2);
  CHECK(traits(AluOp::kDivide).reduction == AluReduction::kNone);
}
