// Gives Python the compiler: a method of the program recorded from a kernel, and its switches.
#pragma once

#include <string>

#include "python/binding/recorder.hpp"

namespace nkisim::python {

/// Adds compiler_switches() and compiler_options() to the module.
void bind_options(py::module_& m);
/// Adds compile().
void bind_compile(py::class_<Recorder>& program);
/// Writes the program as it was before it was compiled, as a trace to compile.
void write_recorded(Recorder& r, const std::string& path);

}  // namespace nkisim::python
