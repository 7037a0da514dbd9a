// Builds and binds the SystemC modules of all ranks, and collects the results of the ranks.
#include "models/elaboration.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "isa/world/shard.hpp"
#include "models/dma/dma_plan.hpp"

namespace nkisim::models {
namespace {

// The program of every rank of the world. Twins have the program of their rank.
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

// SystemC runs processes in the order of their construction at first, which a test shuffles.
std::vector<std::size_t> construction_order(std::size_t ranks, const TieRule& tie) {
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  TieOrder({.shuffle_seed = tie.shuffle_seed, .sorts = false}).order(order, std::less<>());
  return order;
}

// A part of a run's end that can fail, rank by rank. The first error of all shards is thrown in
// each.
template <typename Fn>
void for_own_ranks(std::span<const RankSetup> ranks, const isa::Shard& shard, const Fn& fn) {
  std::optional<isa::Failure> failure;
  for (std::size_t r = 0; r < ranks.size() && !failure; ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    if (!shard.owns(rank)) continue;
    try {
      fn(r);
    } catch (isa::Error& e) {
      ranks[r].program->locate(e);
      if (ranks.size() > 1) e.of_rank(rank);
      failure = isa::Failure{0, rank, e};
    }
  }
  isa::agree(shard, failure);
}

void check_written(const RankSetup& rank) {
  const RunOptions& options = rank.options;
  if (rank.memory == nullptr || options.conditions.unwritten != isa::Unwritten::kError) return;
  isa::check_outputs(*rank.program, *rank.memory, options.conditions);
}

}  // namespace

Elaboration::Elaboration(Clock& clock, SimSession* session, std::span<const RankSetup> ranks,
                         std::reference_wrapper<const Config> config, const isa::World& world,
                         const isa::Shard& shard)
    : setups_(ranks),
      config_(config),
      shard_(shard),
      chips_(config, world, ranks.front().program->cores(), own_ranks(ranks, shard),
             ranks.front().options.tie, hbm_passes(ranks)),
      world_("world", world, config, clock, session, shard, programs_of(ranks, world.ranks),
             chips_),
      ranks_(ranks.size()) {
  for (const std::size_t r : construction_order(ranks.size(), ranks.front().options.tie)) {
    if (shard.owns(static_cast<std::int64_t>(r))) add(clock, ranks[r], world, r);
  }
}

void Elaboration::add(Clock& clock, const RankSetup& rank, const isa::World& world,
                      std::size_t number) {
  rank.observers.start(*rank.program, config_);
  RunOptions options = rank.options;
  options.world = world;
  const std::string name = "rank" + std::to_string(options.rank);
  ranks_[number] = std::make_unique<Rank>(name.c_str(), *rank.program, config_, rank.memory,
                                          rank.observers, options, clock, world_);
  world_.add(*ranks_[number], rank.twins);
}

std::vector<RunResult> Elaboration::results() const {
  std::vector<RunResult> results(setups_.size());
  bool stopped = false;  // of a world in one process alone; else it is an error
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (ranks_[r] == nullptr) continue;
    results[r] = ranks_[r]->result();
    stopped = stopped || results[r].stopped;
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (ranks_[r] != nullptr) results[r].stopped = stopped;
  }
  return results;
}

std::vector<RunResult> Elaboration::finish() {
  const std::vector<RunResult> found = results();
  const bool stopped = std::any_of(found.begin(), found.end(),
                                   [](const RunResult& result) { return result.stopped; });
  if (!stopped) world_.check_finished();
  for_own_ranks(setups_, shard_, [&](std::size_t r) {
    if (!stopped) ranks_[r]->check_finished();
  });
  for_own_ranks(setups_, shard_, [&](std::size_t r) {
    setups_[r].observers.end({found[r].end, stopped});
    if (!stopped) check_written(setups_[r]);
  });
  return found;
}

}  // namespace nkisim::models
