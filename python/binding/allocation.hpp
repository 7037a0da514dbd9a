// Declares the Python class Allocation in C++, the base of Storage (values/storage.py): the memory
// of one tensor that a kernel allocates.
#pragma once

#include <pybind11/pybind11.h>

namespace nkisim::python {

class Recorder;

/// Adds the class Allocation to the module. Legacy kernels make one for every instruction.
void bind_allocation(pybind11::module_& m);
/// Gives the program a tensor: sets `core`, `role`, `born`, `id` and `name` of a Storage.
/// `hbm_address` is for one in HBM; on chip it has the address that it was given, or 0.
void place_allocation(Recorder& recorder, PyObject* storage, PyObject* role, PyObject* core,
                      PyObject* hbm_address);

}  // namespace nkisim::python
