// Bandwidths that several operations share over time.
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

/// Each server's rate, and how much of it is taken at which time.
class Servers {
 public:
  /// Rates in bytes per ns.
  explicit Servers(std::vector<double> rates) : rates_(std::move(rates)), used_(rates_.size()) {}

  /// How long `loads` take with nobody else: all move evenly and together, at `share` of the rate
  /// of the one that takes longest.
  [[nodiscard]] Fs alone(std::span<const ServerLoad> loads, double share) const;
  /// When they end if they begin at `start`, need `least` (alone()) and have what others leave; the
  /// servers are theirs from then on.
  Fs move(Fs start, Fs least, std::span<const ServerLoad> loads);
  [[nodiscard]] double rate(ServerId server) const { return rates_.at(index(server)); }
  /// The share of a server's rate in use at a time.
  [[nodiscard]] double use(ServerId server, Fs at) const;

 private:
  using Use = std::map<Fs, double>;  // in use from that time, in bytes per ns
  static std::size_t index(ServerId server) { return static_cast<std::size_t>(server); }
  void reserve(ServerId server, Fs from, Fs to, double rate);

  std::vector<double> rates_;
  std::vector<Use> used_;
};

}  // namespace nkisim::models
