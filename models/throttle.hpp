// The PE array's rate over time: a utilisation limit that follows past activity.
#pragma once

#include <deque>

#include "models/config.hpp"

namespace nkisim::models {

/// Time is cut into windows. A window in which the array was busy for at least `threshold` of the
/// time lets the next run at full rate; otherwise the next runs at `slow_rate`.
class Throttle {
 public:
  explicit Throttle(const ThrottleConfig& config) : config_(config) {}
  /// Fixes the window phase at the first PE instruction; later calls have no effect.
  void begin(Fs now);
  [[nodiscard]] double rate(Fs at) const;
  /// When `full_rate_fs` of streaming that starts at `start` is done. With `busy`, counts it as
  /// activity. Calls must come in order of start.
  [[nodiscard]] Fs finish(Fs start, Fs full_rate_fs, bool busy);

 private:
  [[nodiscard]] std::int64_t window(Fs at) const;
  void count(std::int64_t window, Fs busy);
  const ThrottleConfig& config_;
  bool begun_ = false;
  Fs phase_ = 0;
  std::int64_t first_ = 0;   // window of activity_.front()
  std::deque<Fs> activity_;  // busy time per window
};

}  // namespace nkisim::models
