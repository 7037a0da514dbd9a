// Tests the fast versions of e^x and tanh x against the exact ones of fp_math.hpp, bit by bit. All
// 2^32 inputs were compared once by hand on each instruction set; here all of bf16 and fp16, edges
// and random bits.
#include "isa/base/act_tested.hpp"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "isa/base/act.hpp"
#include "isa/base/fp_math.hpp"

using namespace nkisim::isa;  // NOLINT(google-build-using-namespace)

namespace {

template <double (*F)(double)>
void exact(const float* in, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto r = static_cast<float>(F(static_cast<double>(in[i])));
    out[i] = std::isnan(r) ? std::numeric_limits<float>::quiet_NaN() : r;
  }
}

double exp_of(double x) { return fp::exp(x); }
double tanh_of(double x) { return fp::tanh(x); }

void never(const float* /*in*/, float* out, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] = 12345.0F;
}

std::size_t differing(const std::vector<float>& a, const std::vector<float>& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) ++count;
  }
  return count;
}

void check(const std::vector<float>& in) {
  std::vector<float> expected(in.size()), got(in.size());
  for (const bool hyperbolic : {false, true}) {
    const FloatLoop old = hyperbolic ? exact<tanh_of> : exact<exp_of>;
    old(in.data(), expected.data(), in.size());
    for (const TestedLoops& loops : tested_loops()) {
      INFO(loops.name << (hyperbolic ? " tanh" : " exp"));
      (hyperbolic ? loops.tanh : loops.exp)(in.data(), got.data(), in.size(), old);
      CHECK(differing(expected, got) == 0);
    }
    apply(hyperbolic ? ActFn::kTanh : ActFn::kExp, in.data(), 0, got.data(), in.size());
    CHECK(differing(expected, got) == 0);
  }
}

}  // namespace

TEST_CASE("tested exp and tanh have the bits of fp_math for every bf16 and fp16") {
  std::vector<float> in;
  for (std::uint32_t i = 0; i < 0x10000; ++i) in.push_back(std::bit_cast<float>(i << 16U));
  check(in);
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const double size = (i & 0x7c00U) == 0 ? std::ldexp(i & 0x3ffU, -24)
                                           : std::ldexp((i & 0x3ffU) | 0x400U,
                                                        static_cast<int>(i >> 10U & 31U) - 25);
    in[i] = static_cast<float>((i & 0x8000U) != 0 ? -size : size);
  }
  check(in);
}

TEST_CASE("tested exp and tanh have the bits of fp_math for random bits") {
  constexpr int kRounds = 10, kCount = 1'000'000;
  std::mt19937 bits(7);
  std::vector<float> in(kCount);
  for (int round = 0; round < kRounds; ++round) {
    for (float& x : in) x = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    check(in);
  }
  // A range in which exp and tanh are neither 0, 1 nor infinite.
  std::uniform_real_distribution<float> near(-110.0F, 110.0F), nearer(-10.0F, 10.0F);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = i % 2 == 0 ? near(bits) : nearer(bits);
  check(in);
}

TEST_CASE("tested exp and tanh have the bits of fp_math at their edges") {
  std::vector<float> in;
  for (const double at :
       {0.0,        0x1p-149, 0x1p-126, 0x1p-30, 0x1p-12, 0x1p-6,        0.17328679514,
        0.34657359, 0.5,      1.0,      9.0109,  20.0,    40.0,          87.3365,
        88.7228,    103.2789, 103.9721, 110.0,   700.0,   0x1.fffffep127}) {
    for (int step = -40; step <= 40; ++step) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(at)) +
                        static_cast<std::uint32_t>(step);  // below 0 they are NaN and at most -0
      in.push_back(std::bit_cast<float>(bits));
      in.push_back(std::bit_cast<float>(bits ^ 0x80000000U));
    }
  }
  for (std::size_t n : {1U, 63U, 64U, 65U, 128U, 200U})
    check({in.begin(), in.begin() + static_cast<std::ptrdiff_t>(n)});
  check(in);
}

TEST_CASE("tested exp and tanh may write where they read") {
  std::vector<float> in(1000);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) * 0.013F - 6.0F;
  in[500] = std::numeric_limits<float>::quiet_NaN();
  for (const TestedLoops& loops : tested_loops()) {
    std::vector<float> expected(in.size()), got = in;
    exact<tanh_of>(in.data(), expected.data(), in.size());
    loops.tanh(got.data(), got.data(), in.size(), exact<tanh_of>);
    CHECK(differing(expected, got) == 0);
  }
}

// A block is computed anew where an element is doubtful, and only there: else nothing would be
// gained.
TEST_CASE("tested exp and tanh leave few blocks to the exact ones") {
  std::vector<float> in(64'000), got(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i) * 0.0003F - 9.0F;
  in[64] = std::numeric_limits<float>::quiet_NaN();
  for (const TestedLoops& loops : tested_loops()) {
    for (const TestedLoop loop : {loops.exp, loops.tanh}) {
      loop(in.data(), got.data(), in.size(), never);
      std::size_t redone = 0;
      for (std::size_t i = 0; i < in.size(); i += 64) redone += got[i] == 12345.0F ? 1 : 0;
      CHECK(got[64] == 12345.0F);
      CHECK(redone < 80);
    }
  }
}
