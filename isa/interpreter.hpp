// Runs a program in program order without time: the oracle for every timed run.
#pragma once

#include <optional>

#include "isa/eval.hpp"
#include "isa/program.hpp"

namespace nkisim::isa {

struct InterpretOptions {
  Unwritten unwritten = Unwritten::kError;
  PrintSink print;
  /// Seed of stochastic rounding (isa/rounding.hpp); none: nearest even.
  std::optional<std::uint32_t> stochastic_rounding = {};
  /// Called now and then with the dynamic instructions done; return false to stop early.
  std::function<bool(std::uint64_t)> progress;
};

/// Executes all cores of `program` on `memory` (inputs already loaded). Cores run one after the
/// other between points where they wait for each other. Throws Error located in the program;
/// a core that waits for a partner that never comes is an error that names both. Returns the number
/// of dynamic instructions executed.
std::uint64_t interpret(const Program& program, Memory& memory,
                        const InterpretOptions& options = {});

/// Executes only instructions [first, last) of a program without control flow across the cut
/// (recording front ends evaluating on demand). `states` has one CoreState per core.
void interpret_range(const Program& program, Memory& memory, std::vector<CoreState>& states,
                     std::size_t first, std::size_t last, const InterpretOptions& options = {});

}  // namespace nkisim::isa
