#include "models/elaboration.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "isa/world/shard.hpp"
#include "models/dma/dma_plan.hpp"

namespace nkisim::models {
namespace {

// Of every rank of the world: twins have their rank's.
std::vector<const isa::Program*> programs_of(std::span<const RankSetup> ranks, int count) {
  std::vector<const isa::Program*> programs(static_cast<std::size_t>(count));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    programs[r] = ranks[r].program;
    for (const int twin : ranks[r].twins) {
      programs[static_cast<std::size_t>(twin)] = ranks[r].program;
    }
  }
  return programs;
}

std::vector<int> own_ranks(std::span<const RankSetup> ranks, const isa::Shard& shard) {
  std::vector<int> own;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (shard.owns(static_cast<std::int64_t>(r))) own.push_back(ranks[r].options.rank);
  }
  return own;
}

int hbm_passes(std::span<const RankSetup> ranks) {
  const bool copies = std::any_of(ranks.begin(), ranks.end(), [](const RankSetup& rank) {
    return copies_within_hbm(*rank.program);
  });
  return copies ? 2 : 1;
}

constexpr std::size_t kMany = 64;  // ranks

// SystemC runs processes in the order of their construction at first, which a test shuffles.
std::vector<std::size_t> construction_order(std::size_t ranks, const TieRule& tie) {
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  TieOrder({.shuffle_seed = tie.shuffle_seed, .sorts = false}).order(order, std::less<>());
  return order;
}

}  // namespace

Elaboration::Elaboration(std::span<const RankSetup> ranks, const Config& config,
                         const isa::World& world, const isa::Shard& shard)
    : config_(config),
      session_(ranks.size() >= kMany),
      chips_(config, world, ranks.front().program->cores(), own_ranks(ranks, shard),
             ranks.front().options.tie, hbm_passes(ranks)),
      world_("world", world, config, session_, shard, programs_of(ranks, world.ranks), chips_,
             ranks.front().options.tie),
      ranks_(ranks.size()),
      ending_(session_) {
  for (const std::size_t r : construction_order(ranks.size(), ranks.front().options.tie)) {
    if (shard.owns(static_cast<std::int64_t>(r))) add(ranks[r], world, r);
  }
}

void Elaboration::add(const RankSetup& rank, const isa::World& world, std::size_t number) {
  rank.observers.start(*rank.program, config_);
  RunOptions options = rank.options;
  options.world = world;
  const std::string name = "rank" + std::to_string(options.rank);
  ranks_[number] = std::make_unique<Rank>(name.c_str(), *rank.program, config_, rank.memory,
                                          rank.observers, options, session_, world_);
  world_.add(*ranks_[number], rank.twins);
}

}  // namespace nkisim::models
