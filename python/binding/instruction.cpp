// Implements the Python class NkiInstruction (an issued instruction) and its method depends_on().

#include "python/binding/instruction.hpp"

#include <array>

#include "isa/program/ordering.hpp"
#include "python/binding/front.hpp"
#include "python/binding/recorder.hpp"

namespace nkisim::python {
namespace {

struct Handle {
  PyObject_HEAD PyObject* recorder;
  std::uint32_t number;
};

PyTypeObject* handle_type = nullptr;

Handle* handle_of(PyObject* object) { return reinterpret_cast<Handle*>(object); }

void release(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(handle_of(self)->recorder);
  PyObject_Free(self);
  Py_DECREF(type);
}

// Adds the edge, where both record something.
void order_after(Recorder& recorder, const Handle& later, PyObject* producer) {
  if (Py_TYPE(producer) != handle_type) {
    isa::fail(isa::Rule::ordering, "producer", text_of(producer),
              "what a call of nki.isa returned");
  }
  const Handle& earlier = *handle_of(producer);
  if (earlier.recorder == nullptr) return;
  if (earlier.recorder != later.recorder) {
    isa::fail(isa::Rule::ordering,
              "an instruction of another recording is a producer; one of this kernel is required");
  }
  const auto& insts = recorder.program.insts();
  const Inst &consumer = insts[later.number], &before = insts[earlier.number];
  isa::check_orderable(consumer);
  isa::check_orderable(before);
  if (consumer.core != before.core) {
    isa::fail(isa::Rule::ordering, "producer",
              isa::called(before, recorder.program) + " on another core",
              "an instruction of the same core");
  }
  recorder.program.order_after(later.number, earlier.number);
}

PyObject* depends_on(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    const Handle& later = *handle_of(self);
    if (later.recorder == nullptr) return Py_NewRef(self);
    auto& recorder = py::handle(later.recorder).cast<Recorder&>();
    try {
      if (!recorder.program.virtual_addresses()) {
        isa::fail(isa::Rule::kernel_ended,
                  "is called after the kernel was recorded; a call within it is required");
      }
      for (Py_ssize_t i = 0; i < count; ++i) order_after(recorder, later, args[i]);
    } catch (Error& e) {
      e.at("depends_on", recorder.location());
      recorder.program.locate(e);
      throw;
    }
    return Py_NewRef(self);
  });
}

}  // namespace

PyObject* new_instruction(PyObject* recorder, std::uint32_t number) {
  Handle* made = PyObject_New(Handle, handle_type);
  if (made == nullptr) return nullptr;
  Py_XINCREF(recorder);
  made->recorder = recorder;
  made->number = number;
  return reinterpret_cast<PyObject*>(made);
}

void bind_instruction(py::module_& m) {
  static std::array<PyMethodDef, 2> methods = {{
      {"depends_on", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&depends_on)),
       METH_FASTCALL,
       "depends_on($self, /, *producers)\n--\n\n"
       "This instruction starts when every producer, what another call returned, has completed;\n"
       "returns itself. Both are on one core, the producer in the same dynamic loop or around it."},
      {nullptr, nullptr, 0, nullptr},
  }};
  static std::array<PyType_Slot, 4> slots = {{
      {Py_tp_dealloc, reinterpret_cast<void*>(&release)},
      {Py_tp_methods, methods.data()},
      {Py_tp_doc, const_cast<char*>("An instruction that a call of nki.isa recorded.")},
      {0, nullptr},
  }};
  const py::object type =
      make_class({"nkisim.NkiInstruction", sizeof(Handle), 0,
                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots.data()});
  handle_type = reinterpret_cast<PyTypeObject*>(type.ptr());
  m.attr("NkiInstruction") = type;
  m.attr("NO_INSTRUCTION") = py::reinterpret_steal<py::object>(new_instruction(nullptr, 0));
}

}  // namespace nkisim::python
