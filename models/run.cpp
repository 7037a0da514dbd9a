// Simulates one program or several ranks with timing, and returns the results.
#include "models/run.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "models/elaboration.hpp"

namespace nkisim::models {
namespace {

std::vector<RunResult> simulate_world(std::span<const RankSetup> ranks, const Config& config,
                                      const isa::World& world, const isa::Shard& shard) {
  try {
    SimSession session(has_many_modules(ranks));
    Elaboration elaboration(session.clock(), &session, ranks, config, world, shard);
    const SimSession::Ending ending(session);
    // A process of another shard, or a user's engine, may ask for SystemC's time.
    if (shard.alone() && std::none_of(ranks.begin(), ranks.end(), [](const RankSetup& rank) {
          return static_cast<bool>(rank.options.engine);
        })) {
      session.run_ahead();
    }
    elaboration.world().run();
    return elaboration.finish();
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
