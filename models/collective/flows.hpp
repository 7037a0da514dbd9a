// Computes when transfers (flows) end that share the bandwidth of links and stacks over time.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "models/collective/topology.hpp"

namespace nkisim::models {

/// Bytes that an operation moves through one server.
struct ServerLoad {
  ServerId server = 0;
  double bytes = 0;
};

/// Transfers under way. Each moves its loads evenly and together; where a server cannot serve all
/// that want it, they slow down alike, and one that is held up elsewhere leaves its share to
/// others. What is more urgent (a lower priority) takes what it can before anything less urgent
/// does.
class Flows {
 public:
  /// Rates of the servers in bytes per ns.
  explicit Flows(std::vector<double> rates) : rates_(std::move(rates)) {}

  struct Ended {
    Fs time = 0;
    int id = 0;
  };
  /// The time of `loads` alone, at `share` of the rate of the one that takes longest.
  [[nodiscard]] Fs alone(std::span<const ServerLoad> loads, double share) const;
  /// Begins a transfer at `now`, not before the last advance(), that takes `least` (alone()) if
  /// nothing else needs its servers.
  void start(Fs now, int id, Fs least, std::vector<ServerLoad> loads, int priority = 0);
  /// The end of the next transfer if none is started before; kNever without any.
  [[nodiscard]] Fs next() const;
  /// Appends those that have ended, in the order of their ends.
  void advance(Fs now, std::vector<Ended>& ended);
  [[nodiscard]] std::size_t under_way() const { return flows_.size(); }

 private:
  struct Flow {
    int id;
    double least;  // fs
    std::vector<ServerLoad> loads;
    double left = 1;   // of the transfer, at `since`
    double speed = 0;  // 1: as if alone
    Fs since, end;
    int priority = 0;
  };
  void share(Fs now);
  void hand_out(int priority, std::map<ServerId, double>& left, std::vector<double>& speeds) const;
  [[nodiscard]] double rate(ServerId server) const {
    return rates_.at(static_cast<std::size_t>(server));
  }

  std::vector<double> rates_;
  std::vector<Flow> flows_;  // by id
};

}  // namespace nkisim::models
