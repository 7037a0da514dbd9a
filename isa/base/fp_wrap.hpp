// Computes remainders that are exact for every FP32 argument: modulo 2 pi for the NKI function sin,
// and for the NKI functions fmod and mod.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "isa/base/fp_math.hpp"

namespace nkisim::isa::fp {

/// `x` minus the multiple of 2 pi that leaves -pi..pi, rounded to FP32 once; what lies there
/// already comes back unchanged, infinity and NaN give NaN. x / 2 pi is a product of integers: the
/// 24 bits of x and those 96 bits of 1 / 2 pi that decide the fraction (Payne and Hanek's method),
/// whose error, 2^-72, is far below the least fraction of an FP32 argument.
inline float wrap_pi(float x) {
  // 1 / 2 pi in binary, from the binary point on.
  constexpr std::array<std::uint64_t, 8> kInverse = {0x28be60dbU, 0x9391054aU, 0x7f09d5f4U,
                                                     0x7d4d3770U, 0x36d8a566U, 0x4f10e410U,
                                                     0x7f9458eaU, 0xf7aef158U};
  constexpr float kLimit = 3.14159274F;  // pi as FP32, which the engine's sine takes
  if (magnitude(x) <= kLimit) return x;
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const int biased = static_cast<int>(bits >> 23U & 0xffU);
  if (biased == 0xff) return std::numeric_limits<float>::quiet_NaN();
  const std::uint64_t mantissa = (bits & 0x7fffffU) | 0x800000U;
  const int exponent = biased - 150;  // |x| = mantissa * 2^exponent, from -22 on
  // The words of frac(2^exponent / 2 pi), or of the whole quotient where the exponent is negative.
  const auto word = [&](int i) -> std::uint64_t {
    const int at = 32 * i + exponent;  // the first bit's place behind the point
    const int first = at >= 0 ? at / 32 : -1;
    const auto shift = static_cast<unsigned>(at - 32 * first);
    const std::uint64_t high = first < 0 ? 0 : kInverse.at(static_cast<std::size_t>(first));
    const std::uint64_t low = kInverse.at(static_cast<std::size_t>(first + 1));
    return (high << 32U | low) >> (32U - shift) & 0xffffffffU;
  };
  const std::uint64_t low = mantissa * word(2);
  const std::uint64_t middle = mantissa * word(1) + (low >> 32U);
  const std::uint64_t high = mantissa * word(0) + (middle >> 32U);
  const auto rounds = static_cast<std::int64_t>(high << 32U | (middle & 0xffffffffU));
  const double fraction =
      static_cast<double>(rounds) * 0x1p-64 + static_cast<double>(low & 0xffffffffU) * 0x1p-96;
  const auto rest = static_cast<float>(2.0 * kPi * fraction);
  return x < 0.0F ? -rest : rest;
}

/// The remainder of a / b with the sign of b, as NumPy defines it; its sum is rounded once.
inline float mod(float a, float b) {
  const float rest = std::fmod(a, b);
  if (rest == 0.0F) return std::copysign(rest, b);
  return (b < 0.0F) != (rest < 0.0F) ? rest + b : rest;
}

}  // namespace nkisim::isa::fp
