// Counts the bytes of an HBM stack in each window of time, and delays what exceeds its rate.
#include "models/memory/hbm.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

// Short against a transfer, long against a packet.
constexpr Fs kWindow = 256'000'000;
constexpr std::size_t kMaxWindows = 1U << 16U;  // windows remembered

}  // namespace

Hbm::Hbm(const HbmConfig& config, double demand, int engines, const TieRule& tie)
    : limits_(config.bytes_per_ns > 0 && demand > config.bytes_per_ns),
      capacity_(config.bytes_per_ns * to_ns(kWindow)),
      demand_(demand / engines * to_ns(kWindow)),
      engines_(engines),
      tie_(tie) {}

Hbm::Window& Hbm::used(std::int64_t window) {
  if (used_.empty()) first_ = window;
  if (window < first_) return lost_ = {};
  while (first_ + static_cast<std::int64_t>(used_.size()) <= window) {
    used_.push_back({});
    if (used_.size() <= kMaxWindows) continue;
    used_.pop_front();
    ++first_;
  }
  return used_[static_cast<std::size_t>(window - first_)];
}

void Hbm::join(HbmUser& user) {
  users_.push_back(&user);
  order_users();
}

void Hbm::order_users() {
  tie_.order(users_, [](const HbmUser* a, const HbmUser* b) { return a->id() < b->id(); });
}

void Hbm::settle(Fs now) {
  if (now <= settled_) return;
  settled_ = now;
  if (tie_.shuffles()) order_users();
  ahead_.clear();
  for (const HbmUser* user : users_) ahead_.push_back(user->ahead());
  for (;;) {
    Fs next = kNever;
    int busy = 0;
    for (const HbmAhead& a : ahead_) {
      next = std::min(next, a.next);
      busy += a.busy;
    }
    const bool enough = busy * demand_ <= capacity_;
    const Fs until = enough ? now : std::min(now, next);
    const std::size_t first = next == kNever ? 0 : static_cast<std::size_t>(next / kWindow);
    for (std::size_t k = 0; k < users_.size(); ++k) {
      const std::size_t i = (first + k) % users_.size();
      if (until < now && ahead_[i].next > until) continue;
      users_[i]->take_until(until, !enough);
      ahead_[i] = users_[i]->ahead();
    }
    if (until >= now) return;
  }
}

// Stops before `now`: work that starts at this instant may be submitted at it by a core that runs
// later.
void Hbm::settle_all(Fs now) {
  settle(now);
  for (HbmUser* user : users_) user->take_until(now - 1, true);
}

// Takes from the first windows with capacity, from `window` on.
void Hbm::owe(std::int64_t window, double bytes) {
  std::int64_t at = window;
  if (full_from_ <= at && at < full_to_) at = full_to_;
  for (;; ++at) {
    Window& w = used(at);
    const double part = std::min(bytes, left(w));
    w.taken += part;
    bytes -= part;
    if (bytes <= 0) break;
  }
  if (window < full_from_ || window > full_to_) full_from_ = window;
  full_to_ = at;
}

Fs Hbm::delay(Fs start, Fs span, double bytes) {
  if (!limits_ || bytes <= 0) return 0;
  const double rate = bytes / static_cast<double>(std::max<Fs>(span, 1));
  double todo = bytes;
  Fs at = start;
  for (;;) {
    const std::int64_t window = at / kWindow;
    const Fs window_end = (window + 1) * kWindow;
    Window& w = used(window);
    const double share =
        std::min(rate, (capacity_ - w.reserved) / engines_ / static_cast<double>(kWindow));
    const double wanted = rate * static_cast<double>(window_end - at);
    const double free = std::min({todo, wanted, left(w)});
    w.taken += free;
    todo -= free;
    at += static_cast<Fs>(free / rate);
    const double shared = std::min(todo, share * static_cast<double>(window_end - at));
    if (shared > 0) {
      owe(window, shared);
      todo -= shared;
      at += static_cast<Fs>(shared / share);
    }
    if (todo < 0.5) return std::max<Fs>(0, at - start - span);
    at = window_end;
  }
}

void Hbm::reserve(Fs start, Fs span, double bytes) {
  if (!limits_ || bytes <= 0) return;
  const double rate = bytes / static_cast<double>(std::max<Fs>(span, 1));
  for (Fs at = start; bytes >= 0.5;) {
    const Fs window_end = (at / kWindow + 1) * kWindow;
    Window& w = used(at / kWindow);
    const double part = std::min({bytes, rate * static_cast<double>(window_end - at), left(w)});
    w.taken += part;
    w.reserved += part;
    bytes -= part;
    at = window_end;
  }
}

}  // namespace nkisim::models
