// `nkisim run --ranks N`: the ranks of a trace, their data, results and reports.
#pragma once

#include <memory>
#include <vector>

#include "src/cli/limits.hpp"
#include "src/cli/run_result.hpp"

namespace nkisim::cli {

void add_world_options(boost::program_options::options_description& named);
/// --ranks, else what the trace says.
[[nodiscard]] int ranks_of(const Args& args, const isa::Program& program);
/// Runs a compiled trace on its ranks, prints the result and gives the exit code. File names of
/// options hold {rank} where each rank has its own.
int run_ranks(const Args& args, Limits& limits, Outcome& out);

}  // namespace nkisim::cli
