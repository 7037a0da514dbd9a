// Keeps the Python classes and functions that the front end registers once with the extension
// module. C++ reads Python values and raises Python errors through them.
#pragma once

#include <pybind11/pybind11.h>

#include <new>
#include <string>

#include "isa/base/error.hpp"
#include "isa/host/memory_bound.hpp"

namespace nkisim::python {

namespace py = pybind11;

/// A class of this specification, whose slots outlive it; what Python raises comes as
/// error_already_set.
[[nodiscard]] inline py::object make_class(PyType_Spec spec) {
  auto type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  if (!type) throw py::error_already_set();
  return type;
}

/// An attribute read and written on the hot path. Where its owner's class keeps it in __slots__,
/// its place in the object is looked up once instead of its name every time.
class Slot {
 public:
  explicit Slot(const char* attr_name) : text_(attr_name) {}
  /// The value; what Python raises comes as error_already_set.
  [[nodiscard]] py::object of(PyObject* owner) {
    if (PyObject** place = place_in(owner); place != nullptr && *place != nullptr) {
      return py::reinterpret_borrow<py::object>(*place);
    }
    return look_up(owner);
  }
  /// The value, which must be an integer of 64 bits.
  [[nodiscard]] std::int64_t integer_of(PyObject* owner);
  void set(PyObject* owner, const py::object& value);

 private:
  PyObject** place_in(PyObject* owner) {
    if (Py_TYPE(owner) != type_) resolve(Py_TYPE(owner));
    if (offset_ <= 0) return nullptr;
    return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(owner) + offset_);
  }
  void resolve(PyTypeObject* type);
  PyObject* name();
  py::object look_up(PyObject* owner);

  const char* text_;
  PyObject* name_ = nullptr;  // interned when first needed: the interpreter may not run before
  PyTypeObject* type_ = nullptr;
  Py_ssize_t offset_ = 0;  // 0: not in a slot
};

/// Python's tensor and register types, operator tokens and error class, as it registers them.
struct Front {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* reg = nullptr;
  PyTypeObject* choice = nullptr;  // of members of enumerations, which are integers
  PyObject* alu = nullptr;         // dict: token -> code
  PyObject* act = nullptr;
  PyObject* alu_aliases = nullptr;  // dict: other spelling of an ALU operator, texts too -> code
  PyObject* act_aliases = nullptr;
  PyObject* alias = nullptr;    // callable(other spelling), which says what a compiler makes of it
  PyObject* engines = nullptr;  // dict: engine token -> code
  // callable(parameter, value), which says that a text or an integer stands for an enumerator
  PyObject* raw_enum = nullptr;
  PyObject* error = nullptr;    // class
  PyObject* is_ours = nullptr;  // callable(code object) -> bool
  Slot storage_id{"id"}, storage_recorder{"_recorder"}, register_id{"id"}, code{"code"};
};
extern Front front;
/// Takes the types, dicts and callables of `front` from Python's dict of them.
void register_front(const py::dict& what);

[[nodiscard]] inline bool is_tensor(PyObject* o) { return Py_TYPE(o) == front.tensor; }
[[nodiscard]] inline bool is_register(PyObject* o) { return Py_TYPE(o) == front.reg; }
[[nodiscard]] inline bool is_choice(PyObject* o) { return Py_TYPE(o) == front.choice; }
/// repr() on one line, at most 80 characters.
[[nodiscard]] std::string text_of(PyObject* o);

/// Sets Python's error from ours: message, code, instruction, trace line, kernel file and line.
void raise(const isa::Error& error);

/// Calls `fn`. Returns a new reference, or null with Python's error set if it throws.
template <typename Fn>
PyObject* guarded(Fn&& fn) {
  try {
    if (isa::host::memory_bound_reached()) throw std::bad_alloc();
    return fn();
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const py::builtin_exception& e) {  // py::type_error and others
    e.set_error();
  } catch (const isa::Error& e) {
    raise(e);
  } catch (const std::bad_alloc& e) {
    PyErr_SetString(PyExc_MemoryError, e.what());
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

}  // namespace nkisim::python
