#include "models/collective/servers.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

constexpr std::size_t kMostChanges = 1024;  // remembered per server
constexpr double kNothing = 1e-9;           // of the speed alone
constexpr double kLongest = 1e18;           // fs

}  // namespace

Fs Servers::alone(std::span<const ServerLoad> loads, double share) const {
  double longest = 0;
  for (const ServerLoad& l : loads) {
    if (l.bytes > 0) longest = std::max(longest, l.bytes / rate(l.server));
  }
  return from_ns(longest / share);
}

double Servers::use(ServerId server, Fs at) const {
  const Use& use = used_.at(index(server));
  const auto after = use.upper_bound(at);
  return after == use.begin() ? 0 : std::prev(after)->second / rate(server);
}

void Servers::reserve(ServerId server, Fs from, Fs to, double rate) {
  Use& use = used_.at(index(server));
  const auto split = [&use](Fs at) {
    const auto after = use.upper_bound(at);
    const double before = after == use.begin() ? 0 : std::prev(after)->second;
    return use.emplace(at, before).first;
  };
  const auto first = split(from);
  const auto last = split(to);
  for (auto it = first; it != last; ++it) it->second += rate;
  while (use.size() > kMostChanges) use.erase(use.begin());
}

Fs Servers::move(Fs start, Fs least, std::span<const ServerLoad> loads) {
  if (least <= 0) return start;
  const double ns = to_ns(least);
  double left = 1;
  Fs at = start;
  for (;;) {
    // Until some server's use changes, all loads move at the speed of the one with least room.
    double speed = 1;
    Fs change = kNever;
    for (const ServerLoad& l : loads) {
      if (l.bytes <= 0) continue;
      const Use& use = used_.at(index(l.server));
      const auto after = use.upper_bound(at);
      if (after != use.end()) change = std::min(change, after->first);
      const double taken = after == use.begin() ? 0 : std::prev(after)->second;
      speed = std::min(speed, std::max(0.0, rate(l.server) - taken) * ns / l.bytes);
    }
    const double needed = left * static_cast<double>(least) / std::max(speed, kNothing);
    const Fs wanted = needed < kLongest && speed > kNothing ? at + static_cast<Fs>(needed) : kNever;
    const Fs end = std::min(wanted, change);
    if (end == kNever) return at;  // a server of no rate: excluded by the configs' checks
    if (speed > kNothing && end > at) {
      for (const ServerLoad& l : loads) {
        if (l.bytes > 0) reserve(l.server, at, end, speed * l.bytes / ns);
      }
      left -= speed * static_cast<double>(end - at) / static_cast<double>(least);
    }
    if (end == wanted) return end;
    at = end;
  }
}

}  // namespace nkisim::models
