// Finds the kernel's frame on Python's stack, and the variable to which it assigns a call's result.

#include "python/binding/naming.hpp"

#include <string>
#include <unordered_map>

#include "python/binding/front.hpp"

namespace nkisim::python {
namespace {

// Functions that Python registers (record/naming.py). One says if a code object is a kernel's. The
// other returns the variables of a code object's calls, by their offsets.
PyObject* is_kernels = nullptr;
PyObject* assignments = nullptr;

struct Calls {
  py::object code;  // a code object must not be recycled while it is a key
  bool kernels = false;
  py::dict variables;
  std::unordered_map<int, py::object> names;  // by offset, of those that were asked for
};

// Never destroyed: the interpreter may be gone by then.
std::unordered_map<PyObject*, Calls>& calls() {
  static auto* const kCalls = new std::unordered_map<PyObject*, Calls>;
  return *kCalls;
}

Calls& calls_of(py::object code) {
  const auto known = calls().find(code.ptr());
  if (known != calls().end()) return known->second;
  Calls found;
  found.kernels = py::bool_(py::handle(is_kernels)(code));
  if (found.kernels) found.variables = py::handle(assignments)(code);
  found.code = std::move(code);
  PyObject* key = found.code.ptr();
  return calls().emplace(key, std::move(found)).first->second;
}

int offset_in(PyFrameObject* frame) {
#if PY_VERSION_HEX >= 0x030B0000
  return PyFrame_GetLasti(frame);
#else
  return py::handle(reinterpret_cast<PyObject*>(frame)).attr("f_lasti").cast<int>();
#endif
}

// The variable, or the line as "lineN".
py::object name_in(Calls& of, PyFrameObject* frame) {
  const int offset = offset_in(frame);
  const auto known = of.names.find(offset);
  if (known != of.names.end()) return known->second;
  const py::int_ key(offset);
  py::object name = of.variables.contains(key)
                        ? py::object(of.variables[key])
                        : py::str("line" + std::to_string(PyFrame_GetLineNumber(frame)));
  return of.names.emplace(offset, std::move(name)).first->second;
}

PyObject* assigned_name(PyObject*, PyObject*) {
  return guarded([&]() -> PyObject* {
    PyFrameObject* innermost = PyEval_GetFrame();
    auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(innermost));
    while (frame) {
      auto* at = reinterpret_cast<PyFrameObject*>(frame.ptr());
      PyCodeObject* code = PyFrame_GetCode(at);
      Calls& found = calls_of(py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(code)));
      if (found.kernels) return name_in(found, at).release().ptr();
      frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
    }
    return PyUnicode_FromString("t");
  });
}

}  // namespace

void bind_naming(py::module_& m) {
  static PyMethodDef method = {"assigned_name", &assigned_name, METH_NOARGS, nullptr};
  m.attr("assigned_name") =
      py::reinterpret_steal<py::object>(PyCFunction_NewEx(&method, nullptr, nullptr));
  m.def("register_naming", [](const py::object& kernels, const py::object& found) {
    is_kernels = py::object(kernels).release().ptr();
    assignments = py::object(found).release().ptr();
  });
}

}  // namespace nkisim::python
