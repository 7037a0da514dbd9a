// Computes e^x and tanh x fast, and recomputes elements exactly where the rounding is unsure.

#include "isa/base/act_tested.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "isa/base/fp_math.hpp"

// No host gives other bits: an approximation c and the value y of isa/base/fp_math.hpp differ by
// less than margin * |c|. If both ends of that range round to the same float, so does y, because
// rounding is monotone. Else (one element in 5,000; NaN) y itself is computed. So c may use
// whatever the host has: fused products or none. The margins are three times the errors;
// tests/isa/act_tested_test.cpp compares.
namespace nkisim::isa {
namespace {

constexpr std::size_t kBlock = 64;  // is computed anew as a whole
constexpr double kInverseLn2 = 1.44269504088896340736;
constexpr double kLn2 = 0.693147180559945309417;

template <bool Fused>
[[gnu::always_inline]] inline double sum(double a, double b, double c) {  // a b + c
  if constexpr (Fused) return __builtin_fma(a, b, c);
  return a * b + c;
}

template <bool Fused, class... C>
[[gnu::always_inline]] inline double polynomial(double x, double first, C... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return sum<Fused>(x, polynomial<Fused>(x, rest...), first);
  }
}

// x = n ln 2 + r.
struct Reduced {
  double power, r;  // 2^n
};

template <bool Fused>
[[gnu::always_inline]] inline Reduced reduce(double x) {
  const double shifted = sum<Fused>(x, kInverseLn2, fp::kRoundShift);
  const double n = shifted - fp::kRoundShift;
  return {std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023U) << 52U),
          sum<Fused>(n, -kLn2, x)};
}

constexpr std::uint32_t kSign = 0x80000000U;
constexpr std::uint32_t kInfinite = 0x7f800000U;

struct Exp {
  static constexpr double kMargin = 0x1p-38;  // 1.05e-12 is the polynomial's
  static constexpr float kLimit = 110.0F;     // beyond it all is 0 or infinity
  // Below e^x by the margin.
  template <bool Fused>
  [[gnu::always_inline]] static inline float approximate(float x, float& high) {
    constexpr double kBelow = 1.0 - kMargin;
    const Reduced part = reduce<Fused>(static_cast<double>(x));
    const double c =
        part.power *
        polynomial<Fused>(part.r, 1.0 * kBelow, 0.99999999997962278 * kBelow,
                          0.49999999999796311 * kBelow, 0.16666666892396494 * kBelow,
                          0.041666666892307004 * kBelow, 0.0083332658283135003 * kBelow,
                          0.0013888821408139453 * kBelow, 0.00019916016440604504 * kBelow,
                          2.4876313454799368e-5 * kBelow);
    high = static_cast<float>(c * (1.0 + 2.0 * kMargin));
    return static_cast<float>(c);
  }
};

// t / (t + 2) of t = e^2|x| - 1, which is relatively exact next to 0.
struct Tanh {
  static constexpr double kMargin = 0x1p-36;  // 5.1e-12 is the polynomial's
  static constexpr float kLimit = 20.0F;      // beyond it all is 1
  // Next to 0 by the margin.
  template <bool Fused>
  [[gnu::always_inline]] static inline float approximate(float x, float& high) {
    constexpr double kBelow = 1.0 - kMargin;
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(x) & kSign;
    const float a = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~kSign);
    const Reduced part = reduce<Fused>(static_cast<double>(a + a));
    const double rest =
        part.r * polynomial<Fused>(part.r, 0.99999999999547297 * kBelow,
                                   0.49999999999954746 * kBelow, 0.16666666787028752 * kBelow,
                                   0.041666666786985556 * kBelow, 0.0083332833390344265 * kBelow,
                                   0.0013888838910996057 * kBelow, 0.00019907702175735054 * kBelow,
                                   2.4868002978056964e-5 * kBelow);
    const double below = sum<Fused>(part.power, rest, sum<Fused>(part.power, kBelow, -kBelow));
    const double c = below / sum<Fused>(below, 1.0 / kBelow, 2.0);
    const auto up = static_cast<float>(c * (1.0 + 2.0 * kMargin));
    const auto low = static_cast<float>(c);
    high = std::bit_cast<float>(std::bit_cast<std::uint32_t>(up) | sign);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(low) | sign);
  }
};

// Approximates a block. False if some element is too close to a rounding boundary.
template <class F, bool Fused>
[[gnu::always_inline]] inline bool approximate(const float* in, float* out) {
  std::uint32_t doubtful = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    const std::uint32_t size = bits & ~kSign;
    const std::uint32_t bounded = std::min(size, std::bit_cast<std::uint32_t>(F::kLimit));
    float high = 0.0F;
    out[i] = F::template approximate<Fused>(std::bit_cast<float>(bounded | (bits & kSign)), high);
    doubtful |= std::bit_cast<std::uint32_t>(out[i]) ^ std::bit_cast<std::uint32_t>(high);
    doubtful |= size > kInfinite ? 1U : 0U;  // NaN
  }
  return doubtful == 0;
}

template <class F, bool Fused>
[[gnu::always_inline]] inline void blocks(const float* in, float* out, std::size_t n,
                                          FloatLoop exact) {
  alignas(64) std::array<float, kBlock> made;
  std::size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    if (approximate<F, Fused>(in + i, made.data())) {
      std::copy(made.begin(), made.end(), out + i);
    } else {
      exact(in + i, out + i, kBlock);
    }
  }
  if (i < n) exact(in + i, out + i, n - i);
}

template <class F>
void portable(const float* in, float* out, std::size_t n, FloatLoop exact) {
#if defined(__aarch64__)
  blocks<F, true>(in, out, n, exact);
#else
  blocks<F, false>(in, out, n, exact);
#endif
}

#if defined(__x86_64__)
#if defined(__clang__)
#define NKISIM_WIDE "avx512f,avx512dq,avx512bw,avx512vl,fma"
#else  // GCC prefers vectors of 256 bits, on any host
#define NKISIM_WIDE "avx512f,avx512dq,avx512bw,avx512vl,fma,prefer-vector-width=512"
#endif

template <class F>
__attribute__((target("avx2,fma"))) void avx2(const float* in, float* out, std::size_t n,
                                              FloatLoop exact) {
  blocks<F, true>(in, out, n, exact);
}

template <class F>
__attribute__((target(NKISIM_WIDE))) void avx512(const float* in, float* out, std::size_t n,
                                                 FloatLoop exact) {
  blocks<F, true>(in, out, n, exact);
}
#undef NKISIM_WIDE
#endif

}  // namespace

std::span<const TestedLoops> tested_loops() {
  static const auto kLoops = [] {
    std::array<TestedLoops, 3> all{{{"portable", portable<Exp>, portable<Tanh>}}};
    std::size_t count = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      all[count++] = {"avx2", avx2<Exp>, avx2<Tanh>};
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
        all[count++] = {"avx512", avx512<Exp>, avx512<Tanh>};
      }
    }
#endif
    return std::pair(all, count);
  }();
  return {kLoops.first.data(), kLoops.second};
}

void tested_exp(const float* in, float* out, std::size_t n, FloatLoop exact) {
  static const TestedLoop kBest = tested_loops().back().exp;
  kBest(in, out, n, exact);
}

void tested_tanh(const float* in, float* out, std::size_t n, FloatLoop exact) {
  static const TestedLoop kBest = tested_loops().back().tanh;
  kBest(in, out, n, exact);
}

}  // namespace nkisim::isa
