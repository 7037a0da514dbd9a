// Plans a collective algorithm for chunks of one byte: its steps, and the bytes that each step
// sends through each link, HBM stack or set of DMA engines (a server).
#pragma once

#include <span>
#include <vector>

#include "models/collective/flows.hpp"

namespace nkisim::models {

/// One phase of an operation: `steps` follow each other, and the bytes move.
struct PlanPhase {
  Algorithm algorithm{};  // whose constants it has
  int steps = 0, network_steps = 0;
  int peers = 0;  // chips that each one writes to, in a mesh
  bool reduces = false;
  std::vector<ServerLoad> loads;
};

/// Adds up loads per server.
class LoadSum {
 public:
  explicit LoadSum(const Topology& topology)
      : topology_(topology), bytes_(static_cast<std::size_t>(topology.servers())) {}
  void add(ServerId server, double bytes) { bytes_[static_cast<std::size_t>(server)] += bytes; }
  /// Along the way between two chips.
  void send(int from_chip, int to_chip, double bytes);
  [[nodiscard]] std::vector<ServerLoad> loads() const;

 private:
  const Topology& topology_;
  std::vector<double> bytes_;
};

/// A group's ranks by chip, in the order of its ring.
struct GroupShape {
  GroupShape(const Topology& topology, std::span<const int> group);
  std::vector<int> ranks;
  std::vector<int> chips;    // in the order of the ring
  std::vector<int> on_chip;  // ranks of each of them
  int instances = 1, servers = 1;
  bool whole_chips = false;      // all ranks of each chip
  bool whole_instances = false;  // all chips of each instance
};

/// All-gather of N chunks of one byte, or the reduce-scatter of N sums of one byte. In SBUF no byte
/// passes an HBM stack.
std::vector<PlanPhase> gather_phases(const Topology& topology, const GroupShape& group,
                                     Algorithm algorithm, bool hbm);
std::vector<PlanPhase> reduce_phases(const Topology& topology, const GroupShape& group,
                                     Algorithm algorithm, bool hbm);
/// Every rank sends one byte to every other: as a mesh, or with the steps and shares of kRdh.
PlanPhase exchange_phase(const Topology& topology, const GroupShape& group, Algorithm algorithm,
                         bool hbm);

}  // namespace nkisim::models
