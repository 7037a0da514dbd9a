// Declares functions that simulate one program or several ranks with timing, to the end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isa/machine/undefined.hpp"
#include "isa/program/disasm.hpp"
#include "isa/program/world.hpp"
#include "isa/world/shard.hpp"
#include "models/config.hpp"
#include "models/observer.hpp"
#include "models/tie_rule.hpp"

namespace nkisim::models {

class Engine;
struct EngineSetup;

/// Makes the module of an engine of each core. The class need not be that of models/engines.
using EngineFactory = std::function<std::unique_ptr<Engine>(const char* name, isa::Engine id,
                                                            const EngineSetup& setup)>;

/// Options of a rank's run; rank 0's count where it says "for all".
struct RunOptions {
  isa::Conditions conditions = {};
  isa::World world = {};  // ranks of the run, for all ...
  int rank = 0;           // ... and which of them this is
  bool timed = true;      // for all; false: values alone, by the interpreter (nkisim::run_world)
  /// Ranks that cannot differ are simulated once, for all (docs/collectives.md says when that is
  /// exact; nkisim::run_world).
  bool fold = true;
  /// With a link: this process runs one shard of the world, for all, and the others make the same
  /// call. Ranks of one HBM stack must be of one shard. Results and memories of others' ranks are
  /// empty.
  isa::Shard shard = {};
  /// Called now and then with the instructions finished and the simulated time; false stops.
  std::function<bool(std::uint64_t, Fs)> progress = {};
  /// Names of semaphores for messages; null if there are none.
  const isa::SemaphoreNames* semaphore_names = nullptr;
  TieRule tie = {};           // for all; for tests
  EngineFactory engine = {};  // empty: make_engine (core/neuron_core.hpp)
};

struct RunResult {
  Fs end = 0;                      // last instruction or transfer; of a stopped run, the last begun
  std::uint64_t instructions = 0;  // dynamic
  bool stopped = false;            // by the progress callback
};

/// Ranks of `cores` cores that share an HBM stack, and so a part of their time.
[[nodiscard]] int ranks_per_stack(const Config& config, int cores);

/// One rank of a world: its program (ranks may share one), its memory and who watches it.
struct RankSetup {
  const isa::Program* program = nullptr;
  isa::Memory* memory = nullptr;  // null for all ranks: timing only
  ObserverList observers = {};
  RunOptions options = {};  // `rank` and `world` are filled in; progress of rank 0 counts for all
  /// Ranks like this one that are not simulated: they do what it does, at the same times.
  std::vector<int> twins = {};
};

/// Ranks that were to be alike came out at different times: simulate each of them.
struct RanksDiffer {};

/// Simulates a world; the results are in the order of `ranks`, which together with their twins are
/// all ranks of the world, ascending. Throws Error as run() does, and where ranks disagree about a
/// collective or wait for each other for ever; RanksDiffer if there are twins and they differ.
///
/// Of a world in several processes this one simulates the ranks of `shard`, without twins; the
/// other shards make the same call at the same time. Their ranks need a program only, and their
/// results are empty. Values and times are those of one process, and so is the error, which every
/// shard throws. Throws Error as well where the config lets a collective take no time.
std::vector<RunResult> run_world(std::span<const RankSetup> ranks, const Config& config,
                                 const isa::World& world, const isa::Shard& shard);
std::vector<RunResult> run_world(std::span<const RankSetup> ranks, const Config& config,
                                 const isa::World& world);

/// Simulates all cores of `program` on the chip described by `config`. `memory` null: timing only,
/// nothing is computed. Throws Error located in the program: bad data, a rule broken at run time,
/// or a deadlock that names who waits for what.
RunResult run(const isa::Program& program, const Config& config, isa::Memory* memory,
              const ObserverList& observers, const RunOptions& options = {});

}  // namespace nkisim::models
