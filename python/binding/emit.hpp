// Declares emit(), by which the Python functions of nki.isa add an instruction to the program. For
// nearly all instructions it runs no Python code.
#pragma once

#include <pybind11/pybind11.h>

namespace nkisim::python {

/// Adds emit(op, exact, engine, label, *values), current(), activate(recorder) and
/// register_emit(otherwise, outside).
void bind_emit(pybind11::module_& m);

}  // namespace nkisim::python
