#include "models/dma/hbm.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

// Short against a transfer, long against a packet.
constexpr Fs kWindow = 256'000'000;
constexpr std::size_t kMaxWindows = 1U << 16U;  // windows remembered

}  // namespace

Hbm::Hbm(const HbmConfig& config, double demand)
    : limits_(config.bytes_per_ns > 0 && demand > config.bytes_per_ns),
      capacity_(config.bytes_per_ns * to_ns(kWindow)) {}

double& Hbm::used(std::int64_t window) {
  if (used_.empty()) first_ = window;
  if (window < first_) return lost_ = 0;
  while (first_ + static_cast<std::int64_t>(used_.size()) <= window) {
    used_.push_back(0);
    if (used_.size() <= kMaxWindows) continue;
    used_.pop_front();
    ++first_;
  }
  return used_[static_cast<std::size_t>(window - first_)];
}

Fs Hbm::delay(Fs start, Fs span, double bytes) {
  if (!limits_ || bytes <= 0) return 0;
  const double rate = bytes / static_cast<double>(std::max<Fs>(span, 1));
  double left = bytes;
  Fs at = start;
  for (;;) {
    const Fs window_end = (at / kWindow + 1) * kWindow;
    double& taken = used(at / kWindow);
    const double wanted = std::min(left, rate * static_cast<double>(window_end - at));
    const double granted = std::min(wanted, std::max(0.0, capacity_ - taken));
    taken += granted;
    left -= granted;
    if (left < 0.5) {
      const Fs end = at + static_cast<Fs>(granted / rate);
      return std::max<Fs>(0, end - start - span);
    }
    at = window_end;
  }
}

}  // namespace nkisim::models
