// The class below Storage: what a kernel's allocation is (values/storage.py).
#pragma once

#include <pybind11/pybind11.h>

namespace nkisim::python {

/// Adds the class Allocation to the module. Legacy kernels make one for every instruction.
void bind_allocation(pybind11::module_& m);

}  // namespace nkisim::python
