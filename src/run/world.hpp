// Runs several ranks that communicate: for their values alone, or simulated with timing.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isa/world/interpreter.hpp"
#include "src/run/simulation.hpp"

namespace nkisim {

/// One rank: its program (ranks may share one) and its memory, inputs loaded.
struct RankInput {
  const isa::Program* program = nullptr;
  isa::Memory* memory = nullptr;    // null for all ranks: time only
  models::RunOptions options = {};  // `rank` is filled in
  /// Makes the observers of an attempt to run it in time. There may be a second attempt, which
  /// begins anew.
  std::function<std::vector<models::Observer*>()> observe = {};
  /// Ranks with the same number other than 0 have the same inputs, byte for byte.
  int inputs = 0;
};

struct WorldResult {
  std::vector<SimResult> ranks;
  /// For each rank, the rank whose events and whose memory are its own too: itself, or a lower one.
  std::vector<int> timed_as, values_of;
};

/// Checks the programs against the world and runs it. Throws isa::Error located in a program.
WorldResult run_world(std::span<const RankInput> ranks, const models::Config& config);

}  // namespace nkisim
