// Passes the simulator's log messages to Python's logging module.
#pragma once

#include "python/binding/bind.hpp"

namespace nkisim::python {

void bind_logs(py::module_& m);

}  // namespace nkisim::python
