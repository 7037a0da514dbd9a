// Maps ranks to chips and servers, and finds the links between them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/collective/config.hpp"

namespace nkisim::models {

/// The place of a rank's first physical core. Chips are numbered through all instances.
struct Place {
  int server = 0, instance = 0, chip = 0;
  int die = 0, stack = 0, core = 0;  // on the chip
};

/// A bandwidth that operations share, an index below Topology::servers().
using ServerId = int;

/// Ranks fill chips in order, chips an instance in rows, instances a server.
class Topology {
 public:
  /// `ranks` logical cores of `lnc` physical cores each. Throws Error if a chip cannot be divided
  /// so.
  Topology(const TopologyConfig& config, int lnc, int ranks);

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int lnc() const { return lnc_; }
  [[nodiscard]] int ranks_per_chip() const { return ranks_per_chip_; }
  [[nodiscard]] int chips_per_instance() const { return config_.rows * config_.columns; }
  [[nodiscard]] Place place(int rank) const;
  /// The servers that data from one chip to another pass: links by the shortest way, rows first; a
  /// switch's ports; the network.
  [[nodiscard]] std::vector<ServerId> route(int from_chip, int to_chip) const;
  /// Links of a chip to its neighbours in the instance, outgoing.
  [[nodiscard]] std::vector<ServerId> links(int chip) const;
  /// The HBM stack of a rank's (first) core, and its DMA engines.
  [[nodiscard]] ServerId stack(int rank) const;
  [[nodiscard]] ServerId engines(int rank) const;
  /// The order of a group's ranks in a ring: ranks of a chip together, chips along neighbours where
  /// the group's chips allow it, else in the group's order. Channel 1 goes the other way round.
  [[nodiscard]] std::vector<int> ring(std::span<const int> group, int channel = 0) const;

  [[nodiscard]] int servers() const;
  /// Rates of all servers in bytes per ns, given those of a stack and of a core's DMA engines.
  [[nodiscard]] std::vector<double> rates(double stack, double engines) const;
  /// "chip 3 link +x", "chip 0 HBM 2", ...
  [[nodiscard]] std::string server_name(ServerId server) const;

 private:
  struct At {
    int instance, row, column;
  };
  [[nodiscard]] At at(int chip) const;
  [[nodiscard]] int chip(const At& at) const;
  [[nodiscard]] double rate(int kind, double stack, double engines) const;
  void within(std::vector<ServerId>& route, At from, const At& to) const;
  void between(std::vector<ServerId>& route, At from, const At& to) const;

  TopologyConfig config_;
  int lnc_, ranks_, ranks_per_chip_;
  int chips_;  // with ranks, and those that their data may pass
};

}  // namespace nkisim::models
