// Runs the compiler on a program that was read from a file (a trace).

#include "src/run/compile_trace.hpp"

#include <utility>

#include "src/log/log.hpp"
#include "src/trace/operand_text.hpp"

namespace nkisim {

compiler::Compiled compile_trace(TraceFile& trace, const compiler::CompilerOptions& options,
                                 bool place, std::function<const models::Config&()> config) {
  isa::Program& program = *trace.program;
  if (place) {
    for (const isa::Tensor& t : program.tensors()) {
      if (!t.is_raw()) continue;
      isa::Error e(isa::Rule::open_raw_memory,
                   "an operand is raw memory; tensors are required where the compiler chooses "
                   "addresses");
      program.locate(e);
      throw e;
    }
  }
  auto compiled =
      compiler::compile(program, options, {place, trace.legacy}, std::move(config), &log::say_pass);
  if (place) {
    program.set_allow_over_capacity(options.over_capacity == "yes" || compiled.overflow);
    trace.open = false;
  }
  return compiled;
}

}  // namespace nkisim
