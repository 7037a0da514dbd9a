// What runs of one program and of a world have in common.
#pragma once

#include <span>

#include "isa/world/interpreter.hpp"
#include "python/binding/recorder.hpp"
#include "src/report/report.hpp"
#include "src/run/run.hpp"

namespace nkisim::python {

/// `undefined`: False: nothing is tracked, and bytes that nobody wrote are zeros; else it is called
/// with what is said of each output that holds undefined values, and whether that is a warning
/// only.
InterpretOptions options_for(const Recorder& r, const py::object& undefined,
                             const py::object& print);
/// Names of reports to write, by key.
nkisim::ReportFiles report_files(const py::dict& files);
/// Ctrl-C stops the run; with keep_partial what is done so far is the result, else
/// KeyboardInterrupt is raised.
bool interrupted(bool keep_partial);
py::dict result_of(const nkisim::Summary& summary, const nkisim::SimResult& result);
std::span<const std::byte> bytes_of(const py::buffer_info& info);

}  // namespace nkisim::python
