// Runs a program on a chip inside another SystemC design, and notifies that design at its end.
#include "models/hosted_chip.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace nkisim::models {
namespace {

isa::World alone(isa::World world) {
  world.ranks = 1;
  return world;
}

}  // namespace

HostedChip::HostedChip(const sc_core::sc_module_name& name, const isa::Program& program,
                       const Config& config, isa::Memory* memory, const ObserverList& observers,
                       const RunOptions& options)
    : HostedChip(name, {{&program, memory, observers, options, {}}}, config, alone(options.world)) {
}

HostedChip::HostedChip(const sc_core::sc_module_name& name, std::vector<RankSetup> ranks,
                       const Config& config, const isa::World& world)
    : sc_module(name),
      ranks_(std::move(ranks)),
      world_(world),
      elaboration_(clock_, nullptr, ranks_, config, world_, shard_) {
  SC_HAS_PROCESS(HostedChip);
  SC_METHOD(look);
  sensitive << clock_.quiet_event();
  dont_initialize();
}

NeuronCore& HostedChip::core(std::size_t id, std::size_t rank) {
  return elaboration_.ranks().at(rank)->core(id);
}

// Processes of this instant that still run may wake others: each says so when it is quiet.
void HostedChip::look() {
  if (finished_) return;
  const ModuleList<Rank>& ranks = elaboration_.ranks();
  const bool idle =
      elaboration_.world().idle() &&
      std::all_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank->idle(); });
  if (!idle && !clock_.stopped()) return;
  finished_ = true;
  finish();
  finished_event_.notify();
}

void HostedChip::finish() {
  try {
    if (clock_.error()) std::rethrow_exception(clock_.error());
    results_ = elaboration_.finish();
  } catch (isa::Error& e) {
    ranks_.front().program->locate(e);
    error_ = std::current_exception();
  } catch (...) {
    error_ = std::current_exception();
  }
}

std::vector<RunResult> HostedChip::outcome() const {
  if (error_) std::rethrow_exception(error_);
  if (finished_) return results_;
  std::vector<RunResult> results = elaboration_.results();
  for (RunResult& result : results) result.stopped = true;
  return results;
}

}  // namespace nkisim::models
