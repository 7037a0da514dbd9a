// Computes elementary functions (exp, log, sine, ...) in double with the same bits on every host:
// it uses no libm, no branches and no FMA.
//
// They serve FP32 results: relative errors are below 1e-11 (each function says), so one rounding to
// FP32 afterwards is within 0.51 units in the last place. Branch-free and inlined so that loops
// over them vectorise. Coefficients: tests/isa/fit_polynomials.py.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace nkisim::isa::fp {

inline constexpr double kPi = 3.14159265358979323846;
inline constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // few bits, so that n * high is exact
inline constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
inline constexpr double kRoundShift = 0x1.8p52;  // adding and subtracting it rounds to an integer
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

#define NKISIM_INLINE [[gnu::always_inline]] inline

NKISIM_INLINE double magnitude(double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & 0x7fffffffffffffffU);
}
NKISIM_INLINE float magnitude(float x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
}
NKISIM_INLINE double with_sign(double x, double sign) {
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(x) & 0x7fffffffffffffffU) |
                               (std::bit_cast<std::uint64_t>(sign) & 0x8000000000000000U));
}

// Horner's rule, lowest power first.
template <class... C>
NKISIM_INLINE double polynomial(double x, double first, C... rest) {
  if constexpr (sizeof...(rest) == 0) {
    return first;
  } else {
    return first + x * polynomial(x, rest...);
  }
}

// e^x, relative error 1e-15; arguments beyond +-700 count as +-700 (beyond FP32's range anyway).
NKISIM_INLINE double exp(double x) {
  x = x < -700.0 ? -700.0 : x;
  x = x > 700.0 ? 700.0 : x;
  const double shifted = x * 1.44269504088896340736 + kRoundShift;
  const double n = shifted - kRoundShift;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  const double power = std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023U) << 52);
  return power * polynomial(r, 1.0, 1.0000000000000068, 0.50000000000000057, 0.16666666666553503,
                            0.041666666666572391, 0.0083333333859827838, 0.0013888888932751,
                            0.00019841169871202735, 2.4801504014426905e-5, 2.7640346826138499e-6,
                            2.7626495546432196e-7);
}

// ln x, relative error 1e-14, for x > 0 finite and normal as a double; garbage otherwise.
NKISIM_INLINE double log_positive(double x) {
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdU;
  constexpr std::uint64_t kBias = 1024;  // keeps the exponent positive: AVX2 has no signed shift
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t k = (bits - kSqrtHalf + (kBias << 52)) >> 52;
  const double n = std::bit_cast<double>(0x4330000000000000U | k) - (0x1.0p52 + 1024.0);
  const double m = std::bit_cast<double>(bits - ((k - kBias) << 52));  // in [sqrt 1/2, sqrt 2)
  const double s = (m - 1.0) / (m + 1.0);
  const double log_m =
      s * polynomial(s * s, 2.0, 0.66666666666552618, 0.40000000061877869, 0.28571415998870743,
                     0.22223436167305083, 0.18121880601878923, 0.16838325175509561);
  return n * kLn2High + (n * kLn2Low + log_m);
}

NKISIM_INLINE double log(double x) {
  double y = log_positive(x);
  y = x > std::numeric_limits<double>::max() ? kInf : y;
  y = x == 0.0 ? -kInf : y;
  return x >= 0.0 ? y : kNan;
}

// ln(1 + u) for u in [0, 1], relative error 1e-12.
NKISIM_INLINE double log1p(double u) {
  const double series = u * polynomial(u, 1.0, -1.0 / 2, 1.0 / 3, -1.0 / 4);
  const double direct = log_positive(1.0 + u);
  return u < 0x1p-10 ? series : direct;
}

// 1 / (1 + e^-x), accurate also where it is tiny.
NKISIM_INLINE double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

NKISIM_INLINE double tanh(double x) {
  const double e = exp(2.0 * x);
  const double direct = (e - 1.0) / (e + 1.0);
  const double z = x * x;
  const double series = x * polynomial(z, 1.0, -1.0 / 3, 2.0 / 15, -17.0 / 315);
  return magnitude(x) < 0x1p-6 ? series : direct;
}

// sin x in [-pi, pi], relative error 1e-14. Outside, the Taylor cubic at +-pi: the hardware
// evaluates its last cubic without range reduction, and sin(9) is documented as about 27.65, which
// is what this cubic gives (assumed to be the one).
NKISIM_INLINE double sin(double x) {
  constexpr double kPiLow = 1.2246467991473532e-16;
  const double a = magnitude(x);
  const double from_pi = (kPi - a) + kPiLow;
  const double y = a > kPi / 2 ? from_pi : a;
  const double z = y * y;
  const double inside =
      y * polynomial(z, 1.0, -0.16666666666666064, 0.0083333333332821481, -0.00019841269824698003,
                     2.7557316588223579e-6, -2.505188059628834e-8, 1.6048125247177544e-10,
                     -7.3738510073399112e-13);
  const double outside = y * (1.0 - z / 6.0);
  return with_sign(1.0, x) * (a > kPi ? outside : inside);
}

// arctan x for every x, relative error 1e-13.
NKISIM_INLINE double atan(double x) {
  constexpr double kTanPi8 = 0.41421356237309504880;
  const double a = magnitude(x);
  const bool middle = a > kTanPi8;
  const bool high = a > 1.0 / kTanPi8;
  const double top = high ? -1.0 : (middle ? a - 1.0 : a);
  const double bottom = high ? a : (middle ? a + 1.0 : 1.0);
  const double base = high ? kPi / 2 : (middle ? kPi / 4 : 0.0);
  const double t = top / bottom;
  const double series =
      t * polynomial(t * t, 0.99999999999997301, -0.3333333333078472, 0.19999999602363223,
                     -0.14285690294890238, 0.11110381840871642, -0.090783490785510367,
                     0.075633857856944792, -0.058732884125488158, 0.030643576430440984);
  return with_sign(base + series, x);
}

// e^(x^2) erfc(x) for x in [0, 28], relative error 3e-12.
NKISIM_INLINE double erfc_scaled(double x) {
  const double t = (x - 2.0) / (x + 2.0);
  return polynomial(t, 0.25539567631055119, -0.42718584741369403, 0.24165819423319954,
                    -0.078978581038688396, 0.0037328927135094133, 0.0069974623211373886,
                    -0.00084714718572491108, -0.00098198369626928426, 4.3580297582250511e-5,
                    0.00017440236761676806, 2.744078570818267e-5, -2.7728759066246296e-5,
                    -1.3805300747013086e-5, 1.7152567781012357e-6, 3.6170396449553161e-6,
                    7.8162697892054373e-7, -4.2887191173118499e-7, -2.2100536114972659e-7,
                    -2.0362356857711109e-8);
}

NKISIM_INLINE double erf(double x) {
  double a = magnitude(x);
  a = a > 28.0 ? 28.0 : a;
  const double z = a * a;
  const double near =
      a * polynomial(z, 1.1283791670954938, -0.37612638902808614, 0.11283791658548713,
                     -0.026866169050599324, 0.0052239671935438997, -0.00085479337365196332,
                     0.00012046261269779798, -1.4795031400662045e-5, 1.5306373163641084e-6,
                     -1.0469110332151208e-7);
  const double far = 1.0 - exp(-z) * erfc_scaled(a);
  return with_sign(a < 1.0 ? near : far, x);
}

// a to the power b, with the special cases of IEEE 754 pow. Selects only: conditions joined by &&
// keep GCC from vectorising.
NKISIM_INLINE float power(float base, float exponent) {
  constexpr double kMax = std::numeric_limits<double>::max();
  const double a = static_cast<double>(base);
  double b = static_cast<double>(exponent);
  b = b < -0x1p40 ? -0x1p40 : b;  // even, and large enough for 0, 1 or infinity; 0 * inf is NaN
  b = b > 0x1p40 ? 0x1p40 : b;
  const double half = b * 0.5;
  const double fraction = b - ((b + kRoundShift) - kRoundShift);
  const double half_fraction = half - ((half + kRoundShift) - kRoundShift);
  const double positive = exp(b * log(magnitude(a)));
  const double whole = half_fraction != 0.0 ? with_sign(positive, a) : positive;
  const double bounded_a = a < -kMax ? 1.0 : a;  // -infinity has every power
  const double fractional = bounded_a < 0.0 ? kNan : positive;
  double r = fraction != 0.0 ? fractional : whole;
  r = b == 0.0 ? 1.0 : r;
  r = a == 1.0 ? 1.0 : r;
  return static_cast<float>(r);
}

NKISIM_INLINE float rsqrt(float x) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}

#undef NKISIM_INLINE

}  // namespace nkisim::isa::fp
