// Evaluates subscripts by index tiles (nl.arange) quickly: it reuses the result of an earlier
// subscript of the same form.
#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "python/binding/view.hpp"

namespace nkisim::python {

/// The effect of a subscript on a view: bytes and partitions to add, and the new shape and strides.
struct Selected {
  std::int64_t part, off;
  PyObject *shape, *strides;  // kept by who gives them
};

/// view[key] of index tiles (Expr of values/index.py) and integers: parts from which a view is
/// made, a finished view, or neither where select() must find what it is.
struct Planned {
  std::optional<Selected> parts;
  pybind11::object view;
};
[[nodiscard]] Planned planned(PyObject* view, PyObject* const* key, Py_ssize_t count, bool on_chip);

/// Adds register_tiles(Expr, plan) and shifted(tile, const) to the module.
void bind_tiles(pybind11::module_& m);

}  // namespace nkisim::python
