// Declares the functions that add classes and functions to the extension module, one for each file.
#pragma once

#include <pybind11/pybind11.h>

#include "python/binding/recorder.hpp"

namespace nkisim::python {

/// The constructor, append, add_tensor, locations, roles, restart, finish, lifetimes and len().
void bind_recording(py::class_<Recorder>& program);
/// load, read, evaluate, interpret and simulate.
void bind_running(py::class_<Recorder>& program);
/// The class World: several programs that run together.
void bind_world(py::module_& m);
/// ops, alu, act, machine, check_budgets, junit_xml and error_kind of the module; save.
void bind_documents(py::module_& m, py::class_<Recorder>& program);

}  // namespace nkisim::python
