// Which algorithm an operation takes, and what that means for a group.
#pragma once

#include <map>
#include <memory>

#include "models/collective/plan.hpp"
#include "models/collective/request.hpp"

namespace nkisim::models {

/// Phases one after the other, for chunks of one byte.
struct CollectivePlan {
  std::vector<PlanPhase> phases;
  void add(const std::vector<PlanPhase>& more) {
    phases.insert(phases.end(), more.begin(), more.end());
  }
};

/// Bytes of a chunk: what a rank gives to an all-gather or gets of a reduce-scatter.
[[nodiscard]] double chunk_bytes(const CollectiveRequest& request);
/// Adds loads to those of the same servers.
void merge(std::vector<ServerLoad>& into, const std::vector<ServerLoad>& loads);
[[nodiscard]] std::vector<ServerLoad> times(const std::vector<ServerLoad>& loads, double factor);

/// Chooses and plans, and remembers the plans.
class CollectivePlanner {
 public:
  CollectivePlanner(const CollectiveConfig& config, const Topology& topology)
      : config_(config), topology_(topology) {}
  /// The algorithm that the config's table chooses.
  [[nodiscard]] Algorithm select(const CollectiveRequest& request) const;
  [[nodiscard]] const CollectivePlan& plan(const CollectiveRequest& request, Algorithm algorithm);

 private:
  [[nodiscard]] Algorithm select(CollectiveKind kind, const GroupShape& group,
                                 std::int64_t bytes) const;
  void add_hierarchical(CollectiveKind kind, const std::map<int, std::vector<int>>& instances,
                        Algorithm within, bool hbm, CollectivePlan& out) const;

  const CollectiveConfig& config_;
  const Topology& topology_;
  std::map<std::vector<int>, std::unique_ptr<CollectivePlan>> plans_;
};

}  // namespace nkisim::models
