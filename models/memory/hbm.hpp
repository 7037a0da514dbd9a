// Models the bandwidth of one HBM stack, which all DMA engines that reach it share.
#pragma once

#include <algorithm>
#include <vector>

#include "models/config.hpp"
#include "models/fifo.hpp"
#include "models/memory/hbm_if.hpp"
#include "models/tie_rule.hpp"

namespace nkisim::models {

/// Counts the bytes moved in each window of time and delays what would exceed the stack's rate.
/// Calls need not come in order of time: engines of a core are computed one after the other. What
/// an engine finds free in a window it takes at its own rate; from then on it has its share of the
/// window, an equal part of the stack's rate, and what that takes beyond the window's capacity is
/// taken from later ones. So engines that are computed late are not starved by those computed
/// before.
class Hbm : public hbm_if {
 public:
  /// `demand` is the most that all engines together can ask for, in bytes per ns, `engines` their
  /// number. A stack that can serve it never delays anybody.
  Hbm(const HbmConfig& config, double demand, int engines, const TieRule& tie = {});
  [[nodiscard]] bool limits() const override { return limits_; }
  Fs delay(Fs start, Fs span, double bytes) override;
  void reserve(Fs start, Fs span, double bytes) override;
  void join(HbmUser& user) override;
  /// Packet by packet in the order of time if there is not enough for all. At one instant in the
  /// order of rank and core, where the first, which finds the most free, is another one in each
  /// window.
  void settle(Fs now) override;
  void settle_all(Fs now) override;

 private:
  struct Window {
    double taken = 0, reserved = 0;  // of `taken`, what is not for engines
  };
  Window& used(std::int64_t window);
  [[nodiscard]] double left(const Window& w) const { return std::max(0.0, capacity_ - w.taken); }
  void owe(std::int64_t window, double bytes);
  bool limits_;
  double capacity_;  // bytes per window
  double demand_;    // of one engine, bytes per window
  double engines_;
  std::int64_t first_ = 0;  // window of used_.front()
  Fifo<Window> used_;
  void order_users();
  std::vector<HbmUser*> users_;
  std::vector<HbmAhead> ahead_;  // of users_, while they are settled
  TieOrder tie_;
  Fs settled_ = -1;                           // the last instant
  std::int64_t full_from_ = 0, full_to_ = 0;  // no window of these has capacity left
  Window lost_;                               // stands for windows too old to be kept
};

}  // namespace nkisim::models
