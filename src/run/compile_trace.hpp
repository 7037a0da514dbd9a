// Runs the compiler on a program that was read from a file (a trace).
#pragma once

#include <functional>

#include "compiler/pipeline.hpp"
#include "src/trace/trace_file.hpp"

namespace nkisim {

/// Compiles the trace's program (compiler::compile). `place`: its on-chip tensors without an
/// address get one, which makes it a trace with physical addresses. Throws isa::Error, located.
compiler::Compiled compile_trace(TraceFile& trace, const compiler::CompilerOptions& options,
                                 bool place, std::function<const models::Config&()> config);

}  // namespace nkisim
