// Declares the Python class Debugged: a simulated run through which a debugger steps.
#pragma once

#include "python/binding/bind.hpp"

namespace nkisim::python {

/// The class Debugged of the module.
void bind_debugged(py::module_& m);

}  // namespace nkisim::python
