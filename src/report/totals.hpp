// Adds up a run over all cores of all its ranks. It alone defines a run's latency and its
// bottleneck.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/report/summary.hpp"

namespace nkisim {

/// The latency of a run: the time from the first start to the last end of any instruction, transfer
/// or operation on any core of any rank. What comes after it (the last semaphore) is no part of it.
/// `ranks`: the span of each.
[[nodiscard]] models::Fs latency(std::span<const Interval> ranks);
[[nodiscard]] models::Fs latency(const Summary& rank);
[[nodiscard]] inline double in_seconds(models::Fs time) {
  return static_cast<double>(time) * 1e-15;
}

/// The totals of a run that has ended.
class Totals {
 public:
  explicit Totals(const Summary& rank) : Totals(std::vector<const Summary*>{&rank}) {}
  /// A summary for each rank; ranks whose time is another's repeat it. `first` is Summary::json()
  /// of the first rank, where the caller has it already: it saves the second walk over a single
  /// core.
  explicit Totals(const std::vector<const Summary*>& ranks,
                  const nlohmann::ordered_json& first = {});

  [[nodiscard]] models::Fs latency() const { return latency_; }
  [[nodiscard]] double latency_us() const { return in_seconds(latency_) * 1e6; }
  /// The metrics of a core, for all of them: total_time is the latency; counts, bytes and work are
  /// sums, rates shares of what all cores could do; the time and share that an engine or DMA is
  /// active are those of the core where it is active longest. Of one core just its metrics.
  [[nodiscard]] const nlohmann::ordered_json& metrics() const { return metrics_; }
  /// The bottleneck of the rank that ends last; none, or "", where no path was followed.
  [[nodiscard]] const std::optional<Bound>& bound() const { return bound_; }
  [[nodiscard]] std::string bottleneck() const { return bound_ ? bound_->text() : ""; }
  /// A line for each of latency, bottleneck, engines, DMA and flops.
  [[nodiscard]] std::vector<std::string> brief() const;
  /// {"latency_us", "totals"}, and with a bottleneck {"bottleneck", "bound", "brief"}.
  void put(nlohmann::ordered_json& out) const;

 private:
  models::Fs latency_ = 0;
  nlohmann::ordered_json metrics_;
  std::optional<Bound> bound_;
};

/// A latency as people read it: in microseconds, from 10,000 of them on in milliseconds.
[[nodiscard]] std::string time_text(double us);

}  // namespace nkisim
