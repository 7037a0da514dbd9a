// Models the throttling of the PE array: its rate depends on how busy the array has been.
#pragma once

#include <array>
#include <span>

#include "models/config.hpp"
#include "models/fifo.hpp"

namespace nkisim::models {

/// The activity that a stretch of streaming adds to a window: `weight` of its time from `from` on.
struct Activity {
  Fs from = 0;
  double weight = 0;  // share of the array's rows
};

/// Time is cut into windows. A window in which the array was busy for at least `rise` of the time
/// lets the following run at full rate, until one in which it was busy for less than `fall`: those
/// behind it run at `slow_rate` again. The first window is slow.
class Throttle {
 public:
  explicit Throttle(const ThrottleConfig& config) : config_(config) {}
  /// Fixes the window phase at the first PE instruction; later calls have no effect.
  void begin(Fs now);
  /// The rate at `at`, by the activity counted so far; at the last start or later.
  [[nodiscard]] double rate(Fs at) const;
  /// The end of `full_rate_fs` of streaming that starts at `start`; counts the activity in
  /// `active`. Calls must come in order of start.
  [[nodiscard]] Fs finish(Fs start, Fs full_rate_fs, std::span<const Activity> active);

 private:
  [[nodiscard]] std::int64_t window(Fs at) const;
  [[nodiscard]] bool next(bool fast, double busy) const;
  [[nodiscard]] bool fast(std::int64_t window) const;
  void settle(std::int64_t window);
  void count(std::int64_t window, double busy);
  const ThrottleConfig& config_;
  bool begun_ = false;
  Fs phase_ = 0;
  std::int64_t first_ = 0;   // window of activity_.front()
  bool first_fast_ = false;  // whether that window runs at full rate
  Fifo<double> activity_;    // weighted busy time per window, in fs
};

}  // namespace nkisim::models
