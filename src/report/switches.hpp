// Measures how the compiler's choices affect a latency: it simulates again with every switch
// changed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/options.hpp"
#include "models/config.hpp"
#include "src/report/summary.hpp"
#include "src/trace/trace_file.hpp"

namespace nkisim {

/// A program compiled with one switch at another choice.
struct SwitchRun {
  std::string name, choice;
  double change = 0;       // of the latency: 0.1 is a tenth slower
  std::string error = {};  // why there is no such program; else empty
};

struct SwitchRuns {
  std::vector<SwitchRun> runs;  // all that were tried, the largest changes first
  std::string why_not = {};     // nothing could be tried
};

/// Compiles `recorded`, what the trace's program was before it was compiled with `used`, with every
/// other choice of every switch that a recorded program can still follow, one at a time, and times
/// the result without values. The trace's program is afterwards what it was, its instructions at
/// their addresses. `go_on` is asked between runs; false ends them.
[[nodiscard]] SwitchRuns try_switches(TraceFile& trace, const isa::Program::Version& recorded,
                                      const compiler::CompilerOptions& used,
                                      const models::Config& config,
                                      const std::function<bool()>& go_on = {});

}  // namespace nkisim
