// A world, or a program alone, from its first event to its results.
#include "models/run.hpp"

#include <exception>
#include <thread>
#include <utility>

#include "models/elaboration.hpp"

namespace nkisim::models {
namespace {

// Runs a check at the end of each rank. Every shard throws the first error of all shards.
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
  isa::check_outputs(*rank.program, *rank.memory, options.conditions.undefined_output);
}

std::vector<RunResult> simulate_world(std::span<const RankSetup> ranks, const Config& config,
                                      const isa::World& world, const isa::Shard& shard) {
  std::vector<RunResult> results(ranks.size());
  try {
    Elaboration elaboration(ranks, config, world, shard);
    elaboration.world().run();
    bool stopped = false;  // of a world in one process alone; else it is an error
    const ModuleList<Rank>& modules = elaboration.ranks();
    for (const auto& rank : modules) {
      stopped = stopped || (rank != nullptr && rank->result().stopped);
    }
    if (!stopped) elaboration.world().check_finished();
    for_own_ranks(ranks, shard, [&](std::size_t r) {
      if (!stopped) modules[r]->check_finished();
      results[r] = modules[r]->result();
      results[r].stopped = stopped;
    });
    for_own_ranks(ranks, shard, [&](std::size_t r) {
      ranks[r].observers.end({results[r].end, stopped});
      if (!stopped) check_written(ranks[r]);
    });
    return results;
  } catch (isa::Error& e) {
    ranks.front().program->locate(e);
    throw;
  }
}

}  // namespace

// Threads of a SystemC program have small stacks.
std::vector<RunResult> run_world(std::span<const RankSetup> ranks, const Config& config,
                                 const isa::World& world, const isa::Shard& shard) {
  if (!SimSession::within_process()) return simulate_world(ranks, config, world, shard);
  std::vector<RunResult> results;
  std::exception_ptr error;
  std::thread([&] {
    try {
      results = simulate_world(ranks, config, world, shard);
    } catch (...) {
      error = std::current_exception();
    }
  }).join();
  if (error) std::rethrow_exception(error);
  return results;
}

std::vector<RunResult> run_world(std::span<const RankSetup> ranks, const Config& config,
                                 const isa::World& world) {
  return run_world(ranks, config, world, {});
}

RunResult run(const isa::Program& program, const Config& config, isa::Memory* memory,
              const ObserverList& observers, const RunOptions& options) {
  const RankSetup alone{&program, memory, observers, options, {}};
  isa::World world = options.world;
  world.ranks = 1;
  return run_world({&alone, 1}, config, world).front();
}

}  // namespace nkisim::models
