// Tests stochastic rounding of a value to one of its two neighbours.
#include "isa/machine/rounding.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "isa/ops/shared/random.hpp"

using namespace nkisim::isa;

namespace {

constexpr std::array<Dtype, 7> kRounded = {
    Dtype::kTfloat32,   Dtype::kBfloat16,     Dtype::kFloat16,   Dtype::kFloat8E3m4,
    Dtype::kFloat8E4m3, Dtype::kFloat8E4m3fn, Dtype::kFloat8E5m2};

// The lowest and the highest number a draw can be.
constexpr std::uint32_t kLow = 0, kHigh = ~std::uint32_t{0};

}  // namespace

TEST_CASE("only narrow floats have a rounding mode", "[rounding]") {
  for (const Dtype d : kRounded) CHECK(has_rounding_mode(d));
  for (const Dtype d : {Dtype::kFloat32, Dtype::kInt8, Dtype::kUint32, Dtype::kBool,
                        Dtype::kFloat8E8m0fnu, Dtype::kFloat8E5m2X4}) {
    CHECK_FALSE(has_rounding_mode(d));
  }
}

TEST_CASE("every value of a dtype stays as it is", "[rounding]") {
  for (const Dtype d : kRounded) {
    const int bits = 8 * size_bytes(d);
    for (std::uint32_t code = 0; code < (bits > 16 ? 0U : 1U << bits); ++code) {
      const float value = decode_one(d, reinterpret_cast<const std::byte*>(&code));
      for (const std::uint32_t random : {kLow, 0x80000000U, kHigh}) {
        const float rounded = round_stochastically(d, value, random);
        CAPTURE(name(d), value, random);
        REQUIRE((std::isnan(value)
                     ? std::isnan(rounded)
                     : rounded == value && std::signbit(rounded) == std::signbit(value)));
      }
    }
  }
}

TEST_CASE("a value between two neighbours becomes one of them", "[rounding]") {
  for (const Dtype d : kRounded) {
    for (float value : {1.0001F, 1.03F, -1.9999F, 0.3F, 3e-3F, 2e-5F, -1e-7F}) {
      const float low = round_stochastically(d, value, kHigh);
      const float high = round_stochastically(d, value, kLow);
      CAPTURE(name(d), value);
      // Both are values of the dtype, around the given one, and no value lies between them.
      CHECK(round_to(d, low) == low);
      CHECK(round_to(d, high) == high);
      CHECK(std::fabs(low) <= std::fabs(value));
      CHECK(std::fabs(high) >= std::fabs(value));
      const float nearest = round_to(d, value);
      CHECK((nearest == low || nearest == high));
    }
  }
}

TEST_CASE("the mean of many roundings is the value", "[rounding]") {
  CoreState state;
  seed_rounding(state, 7, 0);
  Xorwow& generator = state.rounding[0];
  for (const float part : {0.125F, 0.5F, 0.9F}) {
    const float value = 1.0F + part / 128.0F;  // between two bfloat16 values 2^-7 apart
    constexpr int kDraws = 20000;
    int up = 0;
    for (int i = 0; i < kDraws; ++i) {
      up += round_stochastically(Dtype::kBfloat16, value, next_xorwow(generator)) > 1.0F ? 1 : 0;
    }
    const double sigma =
        std::sqrt(static_cast<double>(part) * (1 - static_cast<double>(part)) / kDraws);
    CAPTURE(part, up);
    CHECK(std::fabs(up / static_cast<double>(kDraws) - static_cast<double>(part)) < 5 * sigma);
  }
}

TEST_CASE("beyond the largest value the spacing goes on", "[rounding]") {
  CHECK(round_stochastically(Dtype::kFloat16, 65510.0F, kHigh) == 65504.0F);
  CHECK(round_stochastically(Dtype::kFloat16, 65510.0F, kLow) == 65536.0F);  // stored as infinity
  CHECK(round_stochastically(Dtype::kBfloat16, 3.4e38F, kLow) ==
        std::numeric_limits<float>::infinity());
}

TEST_CASE("seeds, cores, engines and lanes draw different numbers", "[rounding]") {
  CoreState a, b, other_core;
  seed_rounding(a, 1, 0);
  seed_rounding(b, 1, 0);
  seed_rounding(other_core, 1, 1);
  CHECK(a.rounding[5].words == b.rounding[5].words);
  CHECK(a.rounding[5].words != a.rounding[6].words);
  CHECK(a.rounding[5].words != a.rounding[5 + kPartitions].words);
  CHECK(a.rounding[5].words != other_core.rounding[5].words);
  seed_rounding(b, 2, 0);
  CHECK(a.rounding[5].words != b.rounding[5].words);
}
