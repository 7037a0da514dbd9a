// Computes the PE array's rate in each time window from how busy the array was before.
#include "models/engines/throttle.hpp"

#include <algorithm>
#include <cmath>

namespace nkisim::models {
namespace {

// The share of the places where a threshold may lie that `share` reaches.
double reached(double share, double threshold, double doubt) {
  if (doubt <= 0) return share >= threshold ? 1 : 0;
  return std::clamp((share - threshold + doubt) / (2 * doubt), 0.0, 1.0);
}

// The same of an activity that is `least` or `most`, as likely as its own share is near to them.
double reached(const Counted& busy, double threshold, double doubt) {
  const double open = busy.most - busy.least;
  if (open <= 1e-9 * busy.most) return reached(busy.share, threshold, doubt);
  const double near = std::clamp((busy.share - busy.least) / open, 0.0, 1.0);
  return near * reached(busy.most, threshold, doubt) +
         (1 - near) * reached(busy.least, threshold, doubt);
}

}  // namespace

void Throttle::begin(Fs now) {
  if (begun_ || !config_.enabled) return;
  begun_ = true;
  phase_ = now + config_.first_boundary - config_.window;
  first_ = window(now);
}

Counted Throttle::activity(double rows, int lines) const {
  const double share = rows / lines;
  if (config_.known_rows <= 0) return {share, share, share};
  double least = 0, most = config_.known_rows;
  while (most < rows) {
    least = most;
    most *= 2;
  }
  if (rows >= most) least = rows;
  return {share, std::min(least, rows) / lines, std::min(1.0, most / lines)};
}

std::int64_t Throttle::window(Fs at) const {
  const Fs since = at - (phase_ + first_ * config_.window);
  if (since >= 0 && since < config_.window) return first_;
  const Fs d = at - phase_;
  return d >= 0 ? d / config_.window : -((-d + config_.window - 1) / config_.window);
}

// The level of the window after one with `busy` activity.
double Throttle::next(double level, const Counted& busy) const {
  const auto whole = static_cast<double>(config_.window);
  const Counted share = {busy.share / whole, busy.least / whole, busy.most / whole};
  const double held = std::min(level, reached(share, config_.fall, config_.fall_doubt));
  return std::max(held, reached(share, config_.rise, config_.rise_doubt));
}

double Throttle::level_of(std::int64_t w) const {
  if (w <= first_) return first_level_;
  double level = first_level_;
  const std::int64_t known = first_ + static_cast<std::int64_t>(activity_.size());
  for (std::int64_t i = first_; i < std::min(w, known); ++i) {
    level = next(level, activity_[static_cast<std::size_t>(i - first_)]);
  }
  return w <= known ? level : next(next(level, {}), {});  // nothing is counted for those between
}

double Throttle::level(Fs at) const { return config_.enabled ? level_of(window(at)) : 1; }

// Forgets the windows before `w`: what starts from now on does not count for them.
void Throttle::settle(std::int64_t w) {
  if (w <= first_) return;
  first_level_ = level_of(w);
  for (; first_ < w && !activity_.empty(); ++first_) activity_.pop_front();
  first_ = w;
}

void Throttle::count(std::int64_t w, const Counted& weight, Fs time) {
  const auto i = static_cast<std::size_t>(std::max<std::int64_t>(0, w - first_));
  while (i >= activity_.size()) activity_.push_back({});
  const auto busy = static_cast<double>(time);
  activity_[i].share += weight.share * busy;
  activity_[i].least += weight.least * busy;
  activity_[i].most += weight.most * busy;
}

Stretch Throttle::finish(Fs start, Fs full_rate_fs, std::span<const Activity> active) {
  if (!config_.enabled) return {start + full_rate_fs};
  settle(window(start));
  Fs at = start;
  auto left = static_cast<double>(full_rate_fs);
  double sooner = 0, later = 0;
  while (left >= 0.5) {
    const std::int64_t w = window(at);
    const Fs boundary = phase_ + (w + 1) * config_.window;
    const double level = level_of(w);
    const double span = level + (1 - level) / config_.slow_rate;  // of what full rate takes
    const Fs need = static_cast<Fs>(std::llround(left * span));
    const Fs end = at + std::min(boundary - at, std::max<Fs>(need, 1));
    for (const Activity& a : active) {
      count(w, a.weight, std::max<Fs>(0, end - std::max(at, a.from)));
    }
    const double done = static_cast<double>(end - at) / span;
    if (level > 0 && level < 1) {
      sooner += done * (span - 1);
      later += done * (1 / config_.slow_rate - span);
    }
    left -= done;
    at = end;
  }
  return {at, static_cast<Fs>(sooner), static_cast<Fs>(later)};
}

}  // namespace nkisim::models
