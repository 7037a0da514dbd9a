// What the simulator says of its work, for Python's logging.
#pragma once

#include "python/binding/bind.hpp"

namespace nkisim::python {

void bind_logs(py::module_& m);

}  // namespace nkisim::python
