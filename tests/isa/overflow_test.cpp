// Tests which values a cast is said to lose: those that come out as beyond the range, and no other.
#include "isa/base/overflow.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

using namespace nkisim::isa;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool lost(Dtype dtype, float value) { return find_overflow(dtype, &value, 1) == 0; }

struct Ends {
  Dtype dtype;
  float low, high, step;  // the range, and the spacing of values at its ends
  bool tie_kept;          // halfway to the next step above rounds down
};

// Largest values and their spacing, from the bits of each format.
constexpr std::array kFloatTypes = {
    Ends{Dtype::kFloat16, -65504, 65504, 32, false},
    Ends{Dtype::kFloat8E3m4, -15.5, 15.5, 0.5, false},
    Ends{Dtype::kFloat8E4m3, -240, 240, 16, false},
    Ends{Dtype::kFloat8E4m3fn, -448, 448, 32, true},
    Ends{Dtype::kFloat8E5m2, -57344, 57344, 8192, false},
};
constexpr std::array kIntegerTypes = {
    Ends{Dtype::kInt8, -128, 127, 1, false},
    Ends{Dtype::kUint8, 0, 255, 1, false},
    Ends{Dtype::kInt16, -32768, 32767, 1, false},
    Ends{Dtype::kUint16, 0, 65535, 1, false},
};

}  // namespace

TEST_CASE("floats are lost where they become infinite or NaN", "[overflow]") {
  for (const Ends& e : kFloatTypes) {
    for (const float sign : {1.0F, -1.0F}) {
      const float tie = e.high + e.step / 2;
      for (const float x : {0.0F, 1.0F, e.high, std::nextafter(tie, 0.0F), tie,
                            std::nextafter(tie, kInfinity), e.high * 2, 3e38F}) {
        CAPTURE(name(e.dtype), x);
        CHECK(lost(e.dtype, sign * x) == (x > tie || (x == tie && !e.tie_kept)));
        CHECK(lost(e.dtype, sign * x) == !std::isfinite(round_to(e.dtype, sign * x)));
      }
      const bool has_infinity = e.dtype != Dtype::kFloat8E4m3fn;
      CHECK(lost(e.dtype, sign * kInfinity) == !has_infinity);
    }
    CHECK_FALSE(lost(e.dtype, std::nanf("")));
  }
}

TEST_CASE("integers are lost beyond half a unit of either end", "[overflow]") {
  for (const Ends& e : kIntegerTypes) {
    CAPTURE(name(e.dtype));
    CHECK_FALSE(lost(e.dtype, e.low));
    CHECK_FALSE(lost(e.dtype, e.low - 0.5F));  // a tie to the even end
    CHECK(lost(e.dtype, e.low - 1));
    CHECK_FALSE(lost(e.dtype, e.high + 0.25F));
    CHECK(lost(e.dtype, e.high + 1));
    CHECK(lost(e.dtype, kInfinity));
    CHECK(lost(e.dtype, -kInfinity));
    CHECK(lost(e.dtype, std::nanf("")));
  }
}

TEST_CASE("2^31 and 2^32 stand for the largest integers, which FP32 has not", "[overflow]") {
  CHECK_FALSE(lost(Dtype::kInt32, 2147483648.0F));
  CHECK(lost(Dtype::kInt32, 2147483904.0F));
  CHECK_FALSE(lost(Dtype::kInt32, -2147483648.0F));
  CHECK(lost(Dtype::kInt32, -2147483904.0F));
  CHECK_FALSE(lost(Dtype::kUint32, 4294967296.0F));
  CHECK(lost(Dtype::kUint32, 4294967808.0F));
  CHECK(lost(Dtype::kUint32, -1));
}

TEST_CASE("scales lose what is no power of two of theirs", "[overflow]") {
  CHECK_FALSE(lost(Dtype::kFloat8E8m0fnu, 1.0F));
  CHECK_FALSE(lost(Dtype::kFloat8E8m0fnu, 1.7e38F));
  CHECK(lost(Dtype::kFloat8E8m0fnu, 0.0F));
  CHECK(lost(Dtype::kFloat8E8m0fnu, -1.0F));
  CHECK(lost(Dtype::kFloat8E8m0fnu, 3e38F));
}

TEST_CASE("dtypes with the range of FP32 lose nothing", "[overflow]") {
  for (const Dtype d : {Dtype::kFloat32, Dtype::kTfloat32, Dtype::kBfloat16, Dtype::kBool,
                        Dtype::kFloat8E5m2X4, Dtype::kInt64}) {
    CHECK_FALSE(lost(d, 3.4e38F));
    CHECK_FALSE(lost(d, std::nanf("")));
  }
}

TEST_CASE("the first lost value from a place on is found", "[overflow]") {
  std::vector<float> values(1000, 1.0F);
  CHECK(find_overflow(Dtype::kInt8, values.data(), values.size()) == values.size());
  values[300] = 128.0F;
  values[900] = -1000.0F;
  CHECK(find_overflow(Dtype::kInt8, values.data(), values.size()) == 300);
  CHECK(find_overflow(Dtype::kInt8, values.data(), values.size(), 301) == 900);
  CHECK(find_overflow(Dtype::kInt8, values.data(), values.size(), 901) == values.size());
  CHECK(describe_overflow(Dtype::kInt8, 300.0F) ==
        "300, which int8 (-128 to 127) cannot hold: it becomes 127");
  CHECK(describe_overflow(Dtype::kFloat8E4m3, -1e6F) ==
        "-1000000, which float8_e4m3 (-240 to 240) cannot hold: it becomes -inf");
}
