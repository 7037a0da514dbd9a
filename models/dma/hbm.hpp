// The bandwidth of one HBM stack, shared by every DMA engine that reaches into it.
#pragma once

#include "models/config.hpp"
#include "models/fifo.hpp"

namespace nkisim::models {

/// Counts the bytes moved in each window of time and delays what would exceed the stack's rate.
/// Calls need not come in order of time: engines are computed one after the other.
class Hbm {
 public:
  /// `demand` is the most that all engines together can ask for, in bytes per ns. A stack that
  /// can serve it never delays anybody.
  Hbm(const HbmConfig& config, double demand);
  [[nodiscard]] bool limits() const { return limits_; }
  /// `bytes` that would move evenly in [start, start + span): by how much they end later.
  Fs delay(Fs start, Fs span, double bytes);

 private:
  double& used(std::int64_t window);
  bool limits_;
  double capacity_;         // bytes per window
  std::int64_t first_ = 0;  // window of used_.front()
  Fifo<double> used_;
  double lost_ = 0;  // use of windows too old to be kept
};

}  // namespace nkisim::models
