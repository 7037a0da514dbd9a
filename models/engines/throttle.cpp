// Computes the PE array's rate in each time window from how busy the array was before.
#include "models/engines/throttle.hpp"

#include <algorithm>

namespace nkisim::models {

void Throttle::begin(Fs now) {
  if (begun_ || !config_.enabled) return;
  begun_ = true;
  phase_ = now + config_.first_boundary - config_.window;
  first_ = window(now);
}

std::int64_t Throttle::window(Fs at) const {
  const Fs since = at - (phase_ + first_ * config_.window);
  if (since >= 0 && since < config_.window) return first_;
  const Fs d = at - phase_;
  return d >= 0 ? d / config_.window : -((-d + config_.window - 1) / config_.window);
}

// True if the window after one with `busy` activity runs at full rate.
bool Throttle::next(bool fast, double busy) const {
  const double share = busy / static_cast<double>(config_.window);
  return share >= (fast ? config_.fall : config_.rise);
}

bool Throttle::fast(std::int64_t w) const {
  bool fast = first_fast_;
  const std::int64_t known = first_ + static_cast<std::int64_t>(activity_.size());
  for (std::int64_t i = first_; i < std::min(w, known); ++i) {
    fast = next(fast, activity_[static_cast<std::size_t>(i - first_)]);
  }
  return w <= known ? fast : next(next(fast, 0), 0);  // nothing is counted for those between
}

double Throttle::rate(Fs at) const {
  return !config_.enabled || fast(window(at)) ? 1 : config_.slow_rate;
}

// Forgets the windows before `w`: what starts from now on does not count for them.
void Throttle::settle(std::int64_t w) {
  if (w <= first_) return;
  first_fast_ = fast(w);
  for (; first_ < w && !activity_.empty(); ++first_) activity_.pop_front();
  first_ = w;
}

void Throttle::count(std::int64_t w, double busy) {
  const auto i = static_cast<std::size_t>(std::max<std::int64_t>(0, w - first_));
  while (i >= activity_.size()) activity_.push_back(0);
  activity_[i] += busy;
}

Fs Throttle::finish(Fs start, Fs full_rate_fs, std::span<const Activity> active) {
  if (!config_.enabled) return start + full_rate_fs;
  settle(window(start));
  Fs at = start;
  auto left = static_cast<double>(full_rate_fs);
  while (left >= 0.5) {
    const std::int64_t w = window(at);
    const Fs boundary = phase_ + (w + 1) * config_.window;
    const double r = (w == first_ ? first_fast_ : fast(w)) ? 1 : config_.slow_rate;
    const Fs need = static_cast<Fs>(std::llround(left / r));
    const Fs end = at + std::min(boundary - at, std::max<Fs>(need, 1));
    for (const Activity& a : active) {
      count(w, a.weight * static_cast<double>(std::max<Fs>(0, end - std::max(at, a.from))));
    }
    left -= static_cast<double>(end - at) * r;
    at = end;
  }
  return at;
}

}  // namespace nkisim::models
