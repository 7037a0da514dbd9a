// Gives Python the methods of Program that add tensors and instructions, and answer questions on
// them.
#include <pybind11/stl.h>

#include "isa/program/uses.hpp"
#include "python/binding/allocation.hpp"
#include "python/binding/bind.hpp"
#include "python/binding/front.hpp"
#include "python/binding/instruction.hpp"
#include "python/binding/machine.hpp"

namespace nkisim::python {
namespace {

// Without pybind11's look-up of types where the object is what a Program is.
Recorder& recorder_of(PyObject* self) {
  static PyTypeObject* const kType =
      reinterpret_cast<PyTypeObject*>(py::type::of<Recorder>().release().ptr());
  const auto& object = *reinterpret_cast<py::detail::instance*>(self);
  if (Py_TYPE(self) == kType && object.simple_layout && object.simple_value_holder[0] != nullptr) {
    return *static_cast<Recorder*>(object.simple_value_holder[0]);
  }
  return py::handle(self).cast<Recorder&>();
}

// Called for every instruction and tensor: plain functions of Python's, without pybind11's search
// for an overload.
// append(op, args tuple, engine, core, label, exact)
PyObject* append(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    if (count != 6 || !PyTuple_Check(args[1])) throw py::type_error("append takes six arguments");
    Recorder& recorder = recorder_of(self);
    const auto values = static_cast<std::size_t>(PyTuple_GET_SIZE(args[1]));
    recorder.append({.op = args[0],
                     .values = {&PyTuple_GET_ITEM(args[1], 0), values},
                     .engine = args[2],
                     .core = args[3],
                     .label = args[4],
                     .exact = args[5] == Py_True});
    return new_instruction(self, static_cast<std::uint32_t>(recorder.program.insts().size() - 1));
  });
}

// place(storage, role, core, HBM address)
PyObject* place(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    if (count != 4) throw py::type_error("place takes four arguments");
    place_allocation(recorder_of(self), args[0], args[1], args[2], args[3]);
    return Py_NewRef(Py_None);
  });
}

PyObject* length(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromSize_t(recorder_of(self).program.insts().size()); });
}

PyObject* location(PyObject* self, PyObject*) {
  return guarded([&] { return recorder_of(self).place().release().ptr(); });
}

PyObject* at(PyObject* self, PyObject* place) {
  return guarded([&] {
    recorder_of(self).at(place);
    return Py_NewRef(Py_None);
  });
}

template <typename Fn>
PyCFunction function(Fn* fn) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(fn));
}

void bind_fast(py::class_<Recorder>& program) {
  static std::array<PyMethodDef, 5> methods = {{
      {"append", function(append), METH_FASTCALL, nullptr},
      {"place", function(place), METH_FASTCALL, nullptr},
      {"__len__", function(length), METH_NOARGS, nullptr},
      {"location", function(location), METH_NOARGS, nullptr},
      {"at", function(at), METH_O, nullptr},
  }};
  auto* type = reinterpret_cast<PyTypeObject*>(program.ptr());
  for (PyMethodDef& each : methods) {
    program.attr(each.ml_name) = py::reinterpret_steal<py::object>(PyDescr_NewMethod(type, &each));
  }
}

using Place = std::pair<std::string, std::uint32_t>;  // file and line; "" and 0 if unknown

Place place_of(const Program& program, std::uint32_t file, std::uint32_t line) {
  return {file > 0 ? program.files()[file - 1] : std::string(), line};
}

// The instructions of a core from number `first` on by the names that the kernel gave them.
std::unordered_map<std::string, std::vector<std::size_t>> labelled(const Recorder& r, int core,
                                                                   std::size_t first) {
  std::unordered_map<std::string, std::vector<std::size_t>> out;
  for (std::size_t i = first; i < r.program.insts().size(); ++i) {
    const Inst& inst = r.program.insts()[i];
    if (inst.core == core && inst.label != nullptr) out[*inst.label].push_back(i);
  }
  return out;
}

Place instruction_location(const Recorder& r, std::size_t i) {
  const SourceLoc& loc = r.program.insts().at(i).loc;
  return place_of(r.program, loc.kernel_file, loc.kernel_line);
}

// First and last instruction that touches each tensor (-1: none), index tensors included, and
// whether any writes it.
std::vector<std::tuple<std::int64_t, std::int64_t, bool>> lifetimes(const Recorder& r) {
  std::vector<std::tuple<std::int64_t, std::int64_t, bool>> out;
  const Uses uses(r.program);
  for (std::uint32_t t = 0; t < r.program.tensors().size(); ++t) {
    out.emplace_back(uses.any(t) ? std::int64_t{uses.first(t)} : -1,
                     uses.any(t) ? std::int64_t{uses.last(t)} : -1, uses.writes(t) != 0);
  }
  return out;
}

}  // namespace

void bind_recording(py::class_<Recorder>& program) {
  bind_fast(program);
  program
      .def(py::init([](const std::string& target, const std::string& config,
                       const std::vector<std::string>& overrides) {
             return std::make_unique<Recorder>(machine_sizes(target, config, overrides));
           }),
           py::arg("target"), py::arg("config") = "",
           py::arg("overrides") = std::vector<std::string>{})
      .def("instruction_location", &instruction_location)
      .def("tensor_location",
           [](Recorder& r, std::uint32_t id) {
             const Tensor& t = r.program.tensor(id);
             return place_of(r.program, t.file, t.line);
           })
      .def("set_rank",
           [](Recorder& r, int rank, int ranks) {
             r.rank = rank;
             r.program.set_ranks(ranks);
           })
      .def("set_role", [](Recorder& r, std::uint32_t id,
                          int role) { r.program.set_role(id, static_cast<TensorRole>(role)); })
      .def("restart",  // forgets all values
           [](Recorder& r) {
             r.evaluation.reset();
             r.memory.reset();
           })
      .def("finish", [](Recorder& r) { r.program.finish(); })
      .def("labelled", &labelled)
      .def("order_after", [](Recorder& r, std::size_t later,
                             std::size_t earlier) { r.program.order_after(later, earlier); })
      .def_property("region", &Recorder::region, &Recorder::set_region)
      .def("keep_order", [](Recorder& r, int core, bool on) { r.keep_order(core, on); })
      .def("written",
           [](const Recorder& r, std::uint32_t id) { return r.program.tensor(id).written; })
      .def("lifetimes", &lifetimes);
}

}  // namespace nkisim::python
