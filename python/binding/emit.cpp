// Implements emit(), which adds one nki.isa instruction to the program of the running kernel.

#include "python/binding/emit.hpp"

#include <array>

#include "python/binding/front.hpp"
#include "python/binding/instruction.hpp"
#include "python/binding/recorder.hpp"

namespace nkisim::python {
namespace {

// The state that emit() needs of a thread's active recorder (record/recorder.py). It lives until
// another recorder is made active, so no reference is counted.
struct Active {
  PyObject* recorder = nullptr;  // null: no kernel is being recorded
  PyObject* program = nullptr;
  PyObject* held = nullptr;      // record/pending.py
  PyObject* borrowed = nullptr;  // record/borrowed.py
  Recorder* native = nullptr;
};
thread_local Active active;

Slot pending_of{"pending"}, tiles_of{"tiles"}, core_of{"core"};
PyObject* emit_otherwise = nullptr;  // (op, values, engine, label, exact), through Python
PyObject* outside_kernel = nullptr;  // raises the error of a call outside a kernel

void activate(const py::object& recorder) {
  if (recorder.is_none()) {
    active = {};
    return;
  }
  // The recorder keeps each of them.
  const py::object program = recorder.attr("program"), held = recorder.attr("held"),
                   borrowed = held.attr("borrowed");
  active = {recorder.ptr(), program.ptr(), held.ptr(), borrowed.ptr(), &program.cast<Recorder&>()};
}

// True if the instruction is the next one and its operands have the expected types.
bool direct() {
  return active.recorder != nullptr && pending_of.of(active.held).is_none() &&
         PyList_GET_SIZE(tiles_of.of(active.borrowed).ptr()) == 0;
}

PyObject* emit(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    constexpr Py_ssize_t kOwn = 4;  // op, exact, engine, label
    if (count < kOwn) throw py::type_error("emit takes op, exact, engine, label and values");
    if (!direct()) {
      const auto values = py::reinterpret_steal<py::object>(PyTuple_New(count - kOwn));
      if (!values) throw py::error_already_set();
      for (Py_ssize_t i = kOwn; i < count; ++i) {
        PyTuple_SET_ITEM(values.ptr(), i - kOwn, Py_NewRef(args[i]));
      }
      return PyObject_CallFunctionObjArgs(emit_otherwise, args[0], values.ptr(), args[2], args[3],
                                          args[1], nullptr);
    }
    Recorder& recorder = *active.native;
    recorder.append({.op = args[0],
                     .values = {args + kOwn, static_cast<std::size_t>(count - kOwn)},
                     .engine = args[2],
                     .core = core_of.of(active.recorder).ptr(),
                     .label = args[3],
                     .exact = args[1] == Py_True});
    return new_instruction(active.program,
                           static_cast<std::uint32_t>(recorder.program.insts().size() - 1));
  });
}

PyObject* current(PyObject*, PyObject*) {
  if (active.recorder != nullptr) return Py_NewRef(active.recorder);
  return PyObject_CallNoArgs(outside_kernel);
}

}  // namespace

void bind_emit(py::module_& m) {
  static std::array<PyMethodDef, 2> methods = {{
      {"emit", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&emit)), METH_FASTCALL,
       nullptr},
      {"current", &current, METH_NOARGS, nullptr},
  }};
  for (PyMethodDef& each : methods) {
    m.attr(each.ml_name) =
        py::reinterpret_steal<py::object>(PyCFunction_NewEx(&each, nullptr, nullptr));
  }
  m.def("activate", &activate);
  m.def("register_emit", [](const py::object& otherwise, const py::object& outside) {
    emit_otherwise = py::object(otherwise).release().ptr();
    outside_kernel = py::object(outside).release().ptr();
  });
}

}  // namespace nkisim::python
