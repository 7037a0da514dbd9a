// Runs one core of a program without timing, up to the next point where it waits for another core
// or rank. The interpreter and the debugger use it.
#pragma once

#include <memory>
#include <vector>

#include "isa/program/walker.hpp"
#include "isa/world/exchange.hpp"
#include "isa/world/interpreter.hpp"

namespace nkisim::isa {

struct CoreRun {
  CoreRun(const Program& program, Memory& memory, int id, const InterpretOptions& options);
  /// Goes on where `other` is, on a copy of its memory.
  CoreRun(const CoreRun& other, const Program& program, Memory& memory,
          const InterpretOptions& options);
  int number;
  CoreState state;
  Walker walker;
  EvalContext context;
  std::uint64_t steps = 0;        // so far
  const Inst* waiting = nullptr;  // at a rendezvous or a collective
  bool done = false;
};

using CoreRuns = std::vector<std::unique_ptr<CoreRun>>;

/// Runs a core up to its next rendezvous or collective, to its end, or before step `until`. Adds
/// the instructions to `count`. Returns false if progress asked to stop.
bool run_core(CoreRun& core, const InterpretOptions& options, std::uint64_t& count,
              std::uint64_t until = ~std::uint64_t{0});
/// All cores wait at a collective operation.
[[nodiscard]] bool at_collective(const CoreRuns& cores);
/// The operands of a collective operation at which the cores of `rank` wait.
[[nodiscard]] RankCalls calls_of(const CoreRuns& cores, std::int64_t rank);
/// No core waits any more.
void go_on(const CoreRuns& cores);
/// The cores of a rank meet. Throws Error if one of them does not wait.
void meet(const Program& program, const CoreRuns& cores, bool values);
/// The same of the only rank that runs, where the meeting may be a collective operation.
void meet_alone(const Program& program, const CoreRuns& cores, const InterpretOptions& options);

}  // namespace nkisim::isa
