// Passes the simulator's log to Python's logging.
#pragma once

#include "python/binding/bind.hpp"

namespace nkisim::python {

void bind_logs(py::module_& m);

}  // namespace nkisim::python
