// Reads the compiler's switches from the command lines of `nkisim compile` and `nkisim run`.
#pragma once

#include <map>
#include <string>

#include "compiler/pipeline.hpp"
#include "src/cli/command.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {

/// --schedule, --dma-queues, ...: one for each line of compiler/options.def that a trace can
/// follow.
void add_compiler_options(boost::program_options::options_description& named);

/// The config that --config and --set name for the program's target, or a usage Error.
[[nodiscard]] models::Config config_for(const Args& args, const isa::Program& program);

/// The switches that were chosen, by name.
[[nodiscard]] std::map<std::string, std::string> chosen_switches(const Args& args);
/// The options that the switches choose. Others have the defaults of kernels if `place`, else of
/// placed traces.
[[nodiscard]] compiler::CompilerOptions compiler_options(const Args& args, bool place);
/// Compiles the trace as the switches say, the others being as for kernels if `place`, else as for
/// placed traces. Says a warning on standard error.
compiler::Compiled compile(const Args& args, TraceFile& trace, bool place);

}  // namespace nkisim::cli
