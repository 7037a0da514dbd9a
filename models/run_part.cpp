// A part of a world, from its first event to its results.
#include "models/world_part.hpp"

namespace nkisim::models {
namespace {

// What of a run's end can fail, rank by rank; the first error of all parts is thrown in each.
template <typename Fn>
void for_own_ranks(std::span<const RankSetup> ranks, const isa::Spread& spread, const Fn& fn) {
  std::optional<isa::Failure> failure;
  for (std::size_t r = 0; r < ranks.size() && !failure; ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    if (!spread.owns(rank)) continue;
    try {
      fn(r);
    } catch (isa::Error& e) {
      ranks[r].program->locate(e);
      failure = isa::Failure{0, rank, e};
    }
  }
  isa::agree(spread, failure);
}

}  // namespace

std::vector<RunResult> run_part(std::span<const RankSetup> ranks, const Config& config,
                                const isa::World& world, const isa::Spread& spread) {
  std::vector<RunResult> results(ranks.size());
  try {
    SimSession session;
    std::vector<const isa::Program*> programs;
    for (const RankSetup& rank : ranks) programs.push_back(rank.program);
    WorldPart run("world", world, config, session, spread, programs);
    std::vector<std::unique_ptr<Device>> devices(ranks.size());
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (!spread.owns(static_cast<std::int64_t>(r))) continue;
      ranks[r].observers.start(*ranks[r].program, config);
      RunOptions options = ranks[r].options;
      options.world = world;
      devices[r] = std::make_unique<Device>(*ranks[r].program, config, ranks[r].memory,
                                            ranks[r].observers, options, session, run);
      run.add(*devices[r]);
    }
    run.run();
    run.check_finished();
    for_own_ranks(ranks, spread, [&](std::size_t r) {
      devices[r]->check_finished();
      results[r] = devices[r]->result();
    });
    for_own_ranks(ranks, spread, [&](std::size_t r) {
      ranks[r].observers.end({results[r].end, false});
      const RunOptions& options = ranks[r].options;
      if (ranks[r].memory == nullptr || options.unwritten != isa::Unwritten::kError) return;
      isa::check_outputs(*programs[r], *ranks[r].memory, options.undefined_output);
    });
    return results;
  } catch (isa::Error& e) {
    ranks.front().program->locate(e);
    throw;
  }
}

}  // namespace nkisim::models
