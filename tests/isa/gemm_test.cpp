// Tests the matrix product against a naive loop, bit for bit, at every SIMD level of this host.
#include "isa/machine/gemm.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <vector>

#include "isa/base/dtype.hpp"

using namespace nkisim::isa;  // NOLINT(google-build-using-namespace)

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = -77.25F;  // fills what may not be written

struct Problem {
  int k, m, n;
  std::ptrdiff_t stationary_stride, moving_stride, out_stride;
  std::vector<float> stationary, moving, out;
};

// Operands with values of about one, rounded to `dtype`; strides are wider than the rows.
Problem make_problem(int k, int m, int n, Dtype dtype, unsigned seed) {
  Problem p{k, m, n, m + 3, n + 1, n + 5, {}, {}, {}};
  std::mt19937 random(seed);
  std::normal_distribution<float> value;
  const auto fill = [&](std::vector<float>& x, std::ptrdiff_t size) {
    x.resize(static_cast<std::size_t>(size));
    for (float& f : x) f = round_to(dtype, value(random));
  };
  fill(p.stationary, k * p.stationary_stride);
  fill(p.moving, k * p.moving_stride);
  p.out.assign(static_cast<std::size_t>(m * p.out_stride), kGuard);
  return p;
}

float term(float sum, float a, float b, Products products) {
  return products == Products::kExact ? std::fma(a, b, sum) : sum + a * b;
}

std::vector<float> naive(const Problem& p, bool accumulate, Products products) {
  std::vector<float> out = p.out;
  for (int m = 0; m < p.m; ++m) {
    for (int n = 0; n < p.n; ++n) {
      float sum = 0.0F;
      for (int k = 0; k < p.k; ++k) {
        const float a = p.stationary[static_cast<std::size_t>(k * p.stationary_stride + m)];
        const float b = p.moving[static_cast<std::size_t>(k * p.moving_stride + n)];
        sum = term(sum, a, b, products);
      }
      float& o = out[static_cast<std::size_t>(m * p.out_stride + n)];
      o = accumulate ? o + sum : sum;
      if (std::isnan(o)) o = kNan;
    }
  }
  return out;
}

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> all;
  std::copy_if(kSimdLevels.begin(), kSimdLevels.end(), std::back_inserter(all), host_has);
  return all;
}

std::vector<float> run(const Problem& p, SimdLevel level, bool accumulate, Products products) {
  std::vector<float> out = p.out;
  matmul_at(level, fp32_rows(p.stationary.data(), p.stationary_stride),
            fp32_rows(p.moving.data(), p.moving_stride), out.data(), p.out_stride, p.k, p.m, p.n,
            accumulate, products);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return a.size() == b.size();
}

void check_all(const Problem& p, Products products) {
  for (const bool accumulate : {false, true}) {
    const std::vector<float> expected = naive(p, accumulate, products);
    for (const SimdLevel level : levels()) {
      CAPTURE(p.k, p.m, p.n, static_cast<int>(level), accumulate, static_cast<int>(products));
      REQUIRE(same_bits(run(p, level, accumulate, products), expected));
    }
  }
}

}  // namespace

TEST_CASE("matmul equals the naive loop for every remainder", "[gemm]") {
  unsigned seed = 1;
  for (const int k : {0, 1, 2, 7, 33}) {
    for (int m = 1; m <= 17; ++m) {
      for (const int n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65}) {
        check_all(make_problem(k, m, n, Dtype::kFloat32, seed++), Products::kRounded);
        check_all(make_problem(k, m, n, Dtype::kBfloat16, seed++), Products::kExact);
      }
    }
  }
}

TEST_CASE("matmul equals the naive loop at the size of the array", "[gemm]") {
  check_all(make_problem(128, 128, 512, Dtype::kFloat32, 5), Products::kRounded);
  check_all(make_problem(128, 128, 512, Dtype::kBfloat16, 6), Products::kExact);
  check_all(make_problem(128, 128, 1, Dtype::kFloat32, 7), Products::kRounded);
  check_all(make_problem(128, 127, 3, Dtype::kFloat16, 8), Products::kExact);
  check_all(make_problem(300, 5, 100, Dtype::kTfloat32, 9), Products::kExact);
}

TEST_CASE("operands of bf16 are widened from where they lie", "[gemm]") {
  unsigned seed = 100;
  for (const int m : {1, 7, 8, 20}) {
    for (const int n : {1, 5, 31, 32, 70}) {
      const Problem p = make_problem(19, m, n, Dtype::kBfloat16, seed++);
      const auto stored = [](const std::vector<float>& values) {
        std::vector<std::byte> bytes(2 * values.size() + 1);  // from an odd address
        encode(Dtype::kBfloat16, values.data(), values.size(), bytes.data() + 1);
        return bytes;
      };
      const std::vector<std::byte> left = stored(p.stationary), right = stored(p.moving);
      const MatmulOperand st{left.data() + 1, 2 * p.stationary_stride, true};
      const MatmulOperand mv{right.data() + 1, 2 * p.moving_stride, true};
      const MatmulOperand wide = fp32_rows(p.moving.data(), p.moving_stride);
      const std::vector<float> expected = naive(p, false, Products::kExact);
      for (const SimdLevel level : levels()) {
        for (const MatmulOperand& other : {mv, wide}) {
          CAPTURE(m, n, static_cast<int>(level), other.bf16);
          std::vector<float> out = p.out;
          matmul_at(level, st, other, out.data(), p.out_stride, p.k, m, n, false, Products::kExact);
          CHECK(same_bits(out, expected));
        }
      }
    }
  }
}

TEST_CASE("fused and separate additions agree on exact products", "[gemm]") {
  for (const Dtype dtype : {Dtype::kBfloat16, Dtype::kFloat16, Dtype::kTfloat32, Dtype::kFloat8E4m3,
                            Dtype::kFloat8E5m2, Dtype::kFloat8E3m4}) {
    const Problem p = make_problem(128, 24, 70, dtype, 21);
    for (const SimdLevel level : levels()) {
      CAPTURE(name(dtype), static_cast<int>(level));
      CHECK(same_bits(run(p, level, true, Products::kExact),
                      run(p, level, true, Products::kRounded)));
    }
  }
  // Not so for FP32 operands: the flag matters and the comparison above can fail.
  const Problem p = make_problem(128, 24, 70, Dtype::kFloat32, 21);
  const std::vector<float> fused = naive(p, false, Products::kExact);
  CHECK_FALSE(same_bits(run(p, host_simd_level(), false, Products::kRounded), fused));
}

TEST_CASE("exact products round once even outside the FP32 range", "[gemm]") {
  // -2^127 + 2^128, and 2^-149 + 2^-150: the second product is no FP32 number.
  const auto last_sum = [](float first, float second, float a, float b, Products products) {
    Problem p = make_problem(2, 9, 40, Dtype::kBfloat16, 3);
    for (std::size_t i = 0; i < p.stationary.size(); ++i) p.stationary[i] = i < 12 ? first : a;
    for (std::size_t i = 0; i < p.moving.size(); ++i) p.moving[i] = i < 41 ? second : b;
    check_all(p, products);
    return run(p, host_simd_level(), false, products)[0];
  };
  CHECK(last_sum(0x1p64F, -0x1p63F, 0x1p64F, 0x1p64F, Products::kExact) == 0x1p127F);
  CHECK(last_sum(0x1p64F, -0x1p63F, 0x1p64F, 0x1p64F, Products::kRounded) == kInf);
  CHECK(last_sum(0x1p-75F, 0x1p-74F, 0x1p-75F, 0x1p-75F, Products::kExact) == 0x1p-148F);
  CHECK(last_sum(0x1p-75F, 0x1p-74F, 0x1p-75F, 0x1p-75F, Products::kRounded) == 0x1p-149F);
}

TEST_CASE("sums run over k in order", "[gemm]") {
  const std::vector<float> ones(4, 1.0F);
  const std::vector<float> moving = {1.0F, 1e8F, 1.0F, -1e8F};
  float out = 5.0F;
  matmul(fp32_rows(ones.data(), 1), fp32_rows(moving.data(), 1), &out, 1, 4, 1, 1, false);
  CHECK(out == 0.0F);
  out = 1.0F;
  matmul(fp32_rows(ones.data(), 1), fp32_rows(moving.data(), 1), &out, 1, 4, 1, 1, true);
  CHECK(out == 1.0F);  // the old value joins after the sum: 1e8 would have swallowed it
}

TEST_CASE("zeros do not hide infinities and NaN spreads canonically", "[gemm]") {
  for (const float special : {kInf, -kInf, kNan, -kNan}) {
    Problem p = make_problem(5, 11, 37, Dtype::kBfloat16, 4);
    p.stationary[2 * 14 + 4] = 0.0F;
    p.moving[2 * 38 + 9] = special;
    for (const Products products : {Products::kRounded, Products::kExact}) {
      check_all(p, products);
      const std::vector<float> out = run(p, host_simd_level(), false, products);
      CHECK(std::bit_cast<std::uint32_t>(out[4 * 42 + 9]) == 0x7fc00000U);
      CHECK_FALSE(std::isnan(out[4 * 42 + 10]));
    }
  }
}
