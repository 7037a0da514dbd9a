// emit(), by which the functions of nki.isa record: on its way for nearly all instructions it asks
// Python for nothing.
#pragma once

#include <pybind11/pybind11.h>

namespace nkisim::python {

/// Adds emit(op, exact, engine, label, *values), current(), activate(recorder) and
/// register_emit(otherwise, outside).
void bind_emit(pybind11::module_& m);

}  // namespace nkisim::python
