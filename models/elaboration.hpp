// Builds and binds the SystemC modules of a simulation: its chips and the ranks of this process.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/run.hpp"
#include "models/world/world.hpp"

namespace nkisim::models {

/// SystemC's hierarchy of the ranks of this process, their chips and the world that they share: in
/// the current context, within the module that is being constructed, if there is one.
class Elaboration {
 public:
  /// All of these outlive it. `session`: null where a host runs the modules.
  Elaboration(Clock& clock, SimSession* session, std::span<const RankSetup> ranks,
              std::reference_wrapper<const Config> config, const isa::World& world,
              const isa::Shard& shard);
  [[nodiscard]] World& world() { return world_; }
  [[nodiscard]] const World& world() const { return world_; }
  /// In the order of `ranks`; null: of another process.
  [[nodiscard]] const ModuleList<Rank>& ranks() const { return ranks_; }
  /// Call it when nothing is left to happen. Reports the end to observers. Throws Error if
  /// instructions are left over, or outputs that a run must write are not written.
  [[nodiscard]] std::vector<RunResult> finish();
  /// Results so far.
  [[nodiscard]] std::vector<RunResult> results() const;

 private:
  void add(Clock& clock, const RankSetup& rank, const isa::World& world, std::size_t number);
  std::span<const RankSetup> setups_;
  const Config& config_;
  const isa::Shard& shard_;
  Chips chips_;
  World world_;
  ModuleList<Rank> ranks_;
};

/// A world of so many ranks has thousands of modules (SimSession).
[[nodiscard]] inline bool has_many_modules(std::span<const RankSetup> ranks) {
  constexpr std::size_t kMany = 64;
  return ranks.size() >= kMany;
}

}  // namespace nkisim::models
