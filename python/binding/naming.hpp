// Names a tensor without a name after the Python variable to which the kernel assigns it.
#pragma once

#include <pybind11/pybind11.h>

namespace nkisim::python {

/// Adds assigned_name() and register_naming(is_kernels, assignments) to the module.
void bind_naming(pybind11::module_& m);

}  // namespace nkisim::python
