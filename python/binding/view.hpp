// Declares the C++ base class of NkiTensor, a view of a tensor's memory, with plain subscripts.
//
// Kernels make one or more views for every instruction: they are made here, and instructions read
// them without asking Python.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "isa/base/tensor.hpp"

namespace nkisim::python {

/// A view, as values/tensor.py describes it. Objects are never null after the constructor.
struct View {
  PyObject_HEAD PyObject* st;
  PyObject* shape;    // tuples of integers
  PyObject* strides;  // ... in elements
  PyObject* dtype;
  PyObject* dyn;   // None, or a tuple of run-time parts of the address
  PyObject* held;  // None, or what complains when the view becomes an operand
  PyObject* weak;  // references to it
  std::int64_t part, off;
  const isa::TensorRef* ref;    // the operand made of it, and with all of its dimensions
  const isa::TensorRef* exact;  // null: none was made
  std::int32_t item_bytes;
  std::int32_t code;  // of the dtype; -1: it is none of ours
};

[[nodiscard]] inline View& view_of(PyObject* tensor) { return *reinterpret_cast<View*>(tensor); }

/// True if `value` is exactly an int of 64 bits: `out`.
[[nodiscard]] inline bool plain_int(PyObject* value, std::int64_t& out) {
  if (value == nullptr || !PyLong_CheckExact(value)) return false;
  int overflow = 0;
  out = PyLong_AsLongLongAndOverflow(value, &overflow);
  return overflow == 0;
}

/// Adds the class View and register_subscripts() to the module.
void bind_view(pybind11::module_& m);

}  // namespace nkisim::python
