// Declares code that runs of one program (running.cpp) and of several ranks (world.cpp) share.
#pragma once

#include <map>
#include <memory>
#include <span>

#include "isa/world/interpreter.hpp"
#include "python/binding/recorder.hpp"
#include "src/job/job.hpp"

namespace nkisim::python {

/// `warn`: False: nothing is tracked, and unwritten bytes are zeros; else it is called with the
/// text, the rule, the kernel's file and the line of each warning.
InterpretOptions options_for(const Recorder& r, const py::object& warn, const py::object& print);
/// Names of reports to write, by key.
nkisim::ReportFiles report_files(const py::dict& files);
/// The wishes for a run, as Python's dictionary of booleans, "stop_at" and "dump"; what is missing
/// is false or empty.
struct RunChoices {
  bool timed = false, timing_only = false, fold = false, keep_partial = false,
       full_confidence = false;
  nkisim::StopRequest stop = {};
};
RunChoices run_choices_of(const py::dict& given);
/// A rank that runs what `r` recorded, with the services of options_for.
nkisim::RankInputs rank_inputs(Recorder& r, Memory* memory, const InterpretOptions& services,
                               const py::dict& files, const RunChoices& choices);
/// The bytes a run starts from, by tensor.
using Inputs = std::map<std::uint32_t, std::unique_ptr<SharedBytes>>;
/// Shares those of `memory`, to run again: the host has them once, and what each run writes.
Inputs share_inputs(const Program& program, Memory& memory);
std::unique_ptr<Memory> memory_with(const Program& program, const Inputs& inputs);
/// The stop that was planned: (JSON, text of each rank, {name: (dtype, shape, bytes, valid)} of
/// each rank), or None.
py::object stop_of(const nkisim::Execution& done, const nkisim::FreshMemories& fresh);

/// execute() of a run that may have a stop: its error puts stop_of() as "stop" into `chosen`, the
/// dictionary that Python gave.
void execute(nkisim::Execution& execution, const nkisim::RunCallbacks& callbacks, bool keep_partial,
             const nkisim::FreshMemories& fresh, const py::dict& chosen);
/// Runs and reports without the interpreter's lock. Ctrl-C stops it; with keep_partial what is done
/// so far is the result, else KeyboardInterrupt is raised.
void execute(nkisim::Execution& execution, const nkisim::RunCallbacks& callbacks,
             bool keep_partial);
/// Instructions, whether it was stopped and, `timed`, when a rank ended.
py::dict counts_of(const nkisim::Execution& done, const nkisim::RunArtifacts& artifacts,
                   std::size_t rank, bool timed);
std::span<const std::byte> bytes_of(const py::buffer_info& info);

}  // namespace nkisim::python
