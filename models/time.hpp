// Simulated time as an integer number of femtoseconds.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace nkisim::models {

using Fs = std::int64_t;
inline constexpr Fs kNever = std::numeric_limits<Fs>::max();
/// a + b, both at least 0, where never plus anything is never.
[[nodiscard]] constexpr Fs plus(Fs a, Fs b) { return a >= kNever - b ? kNever : a + b; }
inline constexpr double kFsPerNs = 1e6;

[[nodiscard]] inline Fs from_ns(double ns) { return static_cast<Fs>(std::llround(ns * kFsPerNs)); }
[[nodiscard]] inline double to_ns(Fs fs) { return static_cast<double>(fs) / kFsPerNs; }
/// Exact to the femtosecond for any duration this simulator meets; nothing accumulates because
/// every instruction converts its own total.
[[nodiscard]] inline Fs from_cycles(double cycles, double clock_ghz) {
  return static_cast<Fs>(std::llround(cycles / clock_ghz * kFsPerNs));
}

}  // namespace nkisim::models
