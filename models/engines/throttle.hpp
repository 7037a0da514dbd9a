// Models the throttling of the PE array: its rate depends on how busy the array has been.
#pragma once

#include <functional>
#include <span>

#include "models/config.hpp"
#include "models/fifo.hpp"

namespace nkisim::models {

/// Shares of a window's time, or of the array's rows: as counted, and the least and the most that
/// the measurements leave open.
struct Counted {
  double share = 0, least = 0, most = 0;
};

/// The activity that a stretch of streaming adds to a window: `weight` of its time from `from` on.
struct Activity {
  Fs from = 0;
  Counted weight = {};  // share of the array's rows
};

/// A stretch of streaming. `sooner` and `later` are by how much its end would differ if the limit,
/// where it is not certain, were lifted or not.
struct Stretch {
  Fs end = 0, sooner = 0, later = 0;
};

/// Time is cut into windows. A window in which the array was busy for at least `rise` of the time
/// lets the following run at full rate, until one in which it was busy for less than `fall`: those
/// behind it run at `slow_rate` again. The first window is slow.
///
/// Both thresholds are known but for a doubt, and so is the activity of rows between those that
/// were measured. The level of a window is the share of what is possible in which it runs at full
/// rate; its time lies between both rates by that share, so that no size has a cliff.
class Throttle {
 public:
  explicit Throttle(std::reference_wrapper<const ThrottleConfig> config) : config_(config) {}
  /// Fixes the window phase at the first PE instruction; later calls have no effect.
  void begin(Fs now);
  /// The level at `at`, 1 at full rate, by the activity counted so far; at the last start or later.
  [[nodiscard]] double level(Fs at) const;
  /// `full_rate_fs` of streaming that starts at `start`; counts the activity in `active`. Calls
  /// must come in order of start.
  [[nodiscard]] Stretch finish(Fs start, Fs full_rate_fs, std::span<const Activity> active);
  /// The activity of a multiply on `rows` of `lines` rows.
  [[nodiscard]] Counted activity(double rows, int lines) const;

 private:
  [[nodiscard]] std::int64_t window(Fs at) const;
  [[nodiscard]] double next(double level, const Counted& busy) const;
  [[nodiscard]] double level_of(std::int64_t window) const;
  void settle(std::int64_t window);
  void count(std::int64_t window, const Counted& weight, Fs time);
  const ThrottleConfig& config_;
  bool begun_ = false;
  Fs phase_ = 0;
  std::int64_t first_ = 0;  // window of activity_.front()
  double first_level_ = 0;  // of that window
  Fifo<Counted> activity_;  // weighted busy time per window, in fs
};

}  // namespace nkisim::models
