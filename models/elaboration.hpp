// The modules of a world, built and bound.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/run.hpp"
#include "models/world/world.hpp"

namespace nkisim::models {

/// SystemC's hierarchy of the ranks of this process, their chips and the world that they share.
/// Destroyed in the order that SimSession asks for.
class Elaboration {
 public:
  /// `ranks`, `config`, `world` and `shard` outlive it.
  Elaboration(std::span<const RankSetup> ranks, const Config& config, const isa::World& world,
              const isa::Shard& shard);
  [[nodiscard]] World& world() { return world_; }
  /// In the order of `ranks`; null: of another process.
  [[nodiscard]] const ModuleList<Rank>& ranks() const { return ranks_; }
  [[nodiscard]] SimSession& session() { return session_; }

 private:
  void add(const RankSetup& rank, const isa::World& world, std::size_t number);
  const Config& config_;
  SimSession session_;
  Chips chips_;
  World world_;
  ModuleList<Rank> ranks_;
  SimSession::Ending ending_;
};

}  // namespace nkisim::models
