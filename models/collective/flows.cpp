// Computes when concurrent transfers (flows) of collectives end while they share bandwidth.
//
// A server is what flows share: it has a rate in bytes per ns. More urgent flows get theirs first;
// flows of one priority share a server fairly. At speed 1 (the highest) a flow takes its least
// time.
#include "models/collective/flows.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace nkisim::models {
namespace {

constexpr double kSame = 1e-12;  // speeds that differ less are equal

// Bandwidth that a server has left while speeds are assigned.
struct ServerShare {
  double left = 0;    // bytes per ns
  double wanted = 0;  // by those whose speed is open, at speed 1
};

}  // namespace

Fs Flows::alone(std::span<const ServerLoad> loads, double share) const {
  double longest = 0;
  for (const ServerLoad& l : loads) {
    if (l.bytes > 0) longest = std::max(longest, l.bytes / rate(l.server));
  }
  return from_ns(longest / share);
}

void Flows::start(Fs now, int id, Fs least, std::vector<ServerLoad> loads, int priority) {
  flows_.push_back({.id = id,
                    .least = static_cast<double>(std::max<Fs>(least, 1)),
                    .loads = std::move(loads),
                    .since = now,
                    .end = kNever,
                    .priority = priority});
  share(now);
}

Fs Flows::next() const {
  Fs first = kNever;
  for (const Flow& f : flows_) first = std::min(first, f.end);
  return first;
}

void Flows::advance(Fs now, std::vector<Ended>& ended) {
  for (Fs at = next(); at <= now && at != kNever; at = next()) {
    for (const Flow& f : flows_) {
      if (f.end == at) ended.push_back({at, f.id});
    }
    flows_.erase(
        std::remove_if(flows_.begin(), flows_.end(), [at](const Flow& f) { return f.end == at; }),
        flows_.end());
    share(at);
  }
}

// All speeds of one priority grow together until a server is full; those that use it keep that
// speed, the others go on growing, at most to 1. `left`: of the servers' rates, by those that are
// more urgent.
void Flows::hand_out(int priority, std::map<ServerId, double>& left,
                     std::vector<double>& speeds) const {
  std::map<ServerId, ServerShare> shares;
  const auto demand = [](const Flow& f, const ServerLoad& l) {
    return l.bytes / (f.least / kFsPerNs);
  };
  std::size_t open = 0;
  for (const Flow& f : flows_) {
    if (f.priority != priority) continue;
    ++open;
    for (const ServerLoad& l : f.loads) {
      const double free = left.try_emplace(l.server, rate(l.server)).first->second;
      shares.try_emplace(l.server, ServerShare{.left = free}).first->second.wanted += demand(f, l);
    }
  }
  while (open > 0) {
    double speed = 1;
    for (const auto& [server, share] : shares) {
      if (share.wanted > 0) speed = std::min(speed, share.left / share.wanted);
    }
    const auto full = [&](const ServerLoad& l) {
      const ServerShare& share = shares.at(l.server);
      return share.left / share.wanted <= speed + kSame;
    };
    std::vector<std::size_t> settled;
    for (std::size_t i = 0; i < flows_.size(); ++i) {
      if (flows_[i].priority != priority || speeds[i] >= 0) continue;
      const std::vector<ServerLoad>& loads = flows_[i].loads;
      if (speed >= 1 || std::any_of(loads.begin(), loads.end(), full)) settled.push_back(i);
    }
    for (const std::size_t i : settled) {
      speeds[i] = speed;
      --open;
      for (const ServerLoad& l : flows_[i].loads) {
        ServerShare& share = shares.at(l.server);
        const double wanted = demand(flows_[i], l);
        share.left = std::max(0.0, share.left - speed * wanted);
        share.wanted = std::max(0.0, share.wanted - wanted);
        if (share.wanted < kSame * rate(l.server)) share.wanted = 0;
      }
    }
  }
  for (const auto& [server, share] : shares) left[server] = share.left;
}

void Flows::share(Fs now) {
  std::set<int> priorities;
  for (const Flow& f : flows_) priorities.insert(f.priority);
  std::map<ServerId, double> left;
  std::vector<double> speeds(flows_.size(), -1);
  for (const int priority : priorities) hand_out(priority, left, speeds);
  for (std::size_t i = 0; i < flows_.size(); ++i) {
    Flow& f = flows_[i];
    if (std::abs(f.speed - speeds[i]) <= kSame) continue;  // its end stays what it was
    f.left -= f.speed * static_cast<double>(now - f.since) / f.least;
    f.since = now;
    f.speed = speeds[i];
    const double rest = std::max(0.0, f.left) * f.least;
    f.end = f.speed > kSame ? now + static_cast<Fs>(std::llround(rest / f.speed)) : kNever;
  }
}

}  // namespace nkisim::models
