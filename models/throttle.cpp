#include "models/throttle.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {
constexpr std::size_t kWindowsKept = 64;
}

void Throttle::begin(Fs now) {
  if (begun_ || !config_.enabled) return;
  begun_ = true;
  phase_ = now + config_.first_boundary - config_.window;
}

std::int64_t Throttle::window(Fs at) const {
  const Fs d = at - phase_;
  return d >= 0 ? d / config_.window : -((-d + config_.window - 1) / config_.window);
}

double Throttle::rate(Fs at) const {
  if (!config_.enabled) return 1;
  const std::int64_t previous = window(at) - 1 - first_;
  if (previous < 0 || previous >= static_cast<std::int64_t>(activity_.size())) {
    return config_.slow_rate;
  }
  const auto busy = static_cast<double>(activity_[static_cast<std::size_t>(previous)]);
  return busy >= config_.threshold * static_cast<double>(config_.window) ? 1 : config_.slow_rate;
}

void Throttle::count(std::int64_t w, Fs busy) {
  if (activity_.empty()) first_ = w;
  while (first_ + static_cast<std::int64_t>(activity_.size()) <= w) {
    activity_.push_back(0);
    if (activity_.size() > kWindowsKept) {
      activity_.pop_front();
      ++first_;
    }
  }
  if (w >= first_) activity_[static_cast<std::size_t>(w - first_)] += busy;
}

Fs Throttle::finish(Fs start, Fs full_rate_fs, bool busy) {
  if (!config_.enabled) return start + full_rate_fs;
  Fs at = start;
  auto left = static_cast<double>(full_rate_fs);
  while (left >= 0.5) {
    const std::int64_t w = window(at);
    const Fs boundary = phase_ + (w + 1) * config_.window;
    const double r = rate(at);
    const Fs need = static_cast<Fs>(std::llround(left / r));
    const Fs step = std::min(boundary - at, std::max<Fs>(need, 1));
    if (busy) count(w, step);
    left -= static_cast<double>(step) * r;
    at += step;
  }
  return at;
}

}  // namespace nkisim::models
