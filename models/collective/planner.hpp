// Chooses the algorithm of a collective operation, and plans it for a group of ranks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "models/collective/plan.hpp"
#include "models/collective/request.hpp"

namespace nkisim::models {

/// The chosen algorithm of an operation.
struct Choice {
  Algorithm algorithm{};
  Algorithm within{};  // of kHierarchical: in each instance; of an exchange: whose constants
  Fs waiting = 0;      // so that it takes no less time than a smaller one by another algorithm
};

/// Phases one after the other, for chunks of one byte.
struct CollectivePlan {
  std::vector<PlanPhase> phases;
  void add(const std::vector<PlanPhase>& more) {
    phases.insert(phases.end(), more.begin(), more.end());
  }
};

/// Bytes of a chunk: what a rank gives to an all-gather or gets of a reduce-scatter.
[[nodiscard]] double chunk_bytes(const CollectiveRequest& request);
/// The time of a phase before its data move.
[[nodiscard]] Fs latency_of(const PlanPhase& phase, const CollectiveConfig& config);
/// Adds loads to those of the same servers.
void merge(std::vector<ServerLoad>& into, const std::vector<ServerLoad>& loads);
[[nodiscard]] std::vector<ServerLoad> times(const std::vector<ServerLoad>& loads, double factor);

/// Chooses and plans, and remembers the plans.
class CollectivePlanner {
 public:
  /// `rates`: of the topology's servers, in bytes per ns.
  CollectivePlanner(std::reference_wrapper<const CollectiveConfig> config, const Topology& topology,
                    std::vector<double> rates)
      : config_(config), topology_(topology), rates_(std::move(rates)) {}
  /// The choice of the config's table.
  [[nodiscard]] Choice choose(const CollectiveRequest& request);
  [[nodiscard]] const CollectivePlan& plan(const CollectiveRequest& request, const Choice& choice);

 private:
  using Instances = std::vector<std::vector<int>>;  // ranks of each
  [[nodiscard]] SelectRule rule(CollectiveKind kind, const GroupShape& group,
                                std::int64_t bytes) const;
  [[nodiscard]] Algorithm quicker(const CollectiveRequest& request, Algorithm algorithm,
                                  const SelectRule& row);
  [[nodiscard]] Fs alone(const CollectiveRequest& request, const Choice& choice);
  void add_hierarchical(CollectiveKind kind, const std::vector<Instances>& servers,
                        Algorithm within, bool hbm, CollectivePlan& out) const;

  const CollectiveConfig& config_;
  const Topology& topology_;
  std::vector<double> rates_;
  std::map<std::vector<int>, std::unique_ptr<CollectivePlan>> plans_;
};

}  // namespace nkisim::models
