// Implements the Python class Allocation (one tensor's storage), and adds its tensors to a program.

#include "python/binding/allocation.hpp"

#include <structmember.h>

#include <array>
#include <cstddef>

#include "isa/base/tensor.hpp"
#include "python/binding/front.hpp"
#include "python/binding/recorder.hpp"

namespace nkisim::python {
namespace {

// In the order of kNames.
struct Allocation {
  PyObject_HEAD PyObject *id, *name, *space, *on_chip, *dtype, *shape, *pitch_bytes, *recorder,
      *core, *address, *partition, *file, *line, *buffer, *born, *zeroed_at, *role, *array,
      *narrowed, *compared, *masked, *borrowed, *vector;
  PyObject* weak;  // references to it
};

constexpr std::array kNames = {
    "id",   "name",    "space",     "on_chip",  "dtype",  "shape",    "pitch_bytes", "_recorder",
    "core", "address", "partition", "file",     "line",   "buffer",   "born",        "zeroed_at",
    "role", "array",   "narrowed",  "compared", "masked", "borrowed", "vector"};

constexpr std::size_t kFirst = offsetof(Allocation, id);
static_assert(offsetof(Allocation, weak) == kFirst + kNames.size() * sizeof(PyObject*));

PyObject** parts_of(PyObject* self) {
  return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + kFirst);
}

int traverse_allocation(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (std::size_t i = 0; i < kNames.size(); ++i) Py_VISIT(parts_of(self)[i]);
  return 0;
}

int clear_allocation(PyObject* self) {
  for (std::size_t i = 0; i < kNames.size(); ++i) Py_CLEAR(parts_of(self)[i]);
  return 0;
}

void release_allocation(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (reinterpret_cast<Allocation*>(self)->weak != nullptr) PyObject_ClearWeakRefs(self);
  clear_allocation(self);
  type->tp_free(self);
  Py_DECREF(type);
}

Slot space_of{"space"}, item_size_of{"itemsize"};

// Bytes of a partition, or of a tensor in HBM.
py::object pitch(PyObject* shape, PyObject* dtype, bool chip) {
  py::object bytes = item_size_of.of(dtype);
  const auto dims = py::reinterpret_borrow<py::sequence>(shape);
  const std::size_t n = dims.size();
  for (std::size_t d = chip ? 1 : 0; d < n; ++d) {
    bytes = py::reinterpret_steal<py::object>(
        PyNumber_Multiply(bytes.ptr(), py::object(dims[d]).ptr()));
    if (!bytes) throw py::error_already_set();
  }
  return bytes;
}

void fill(Allocation& a, PyObject* recorder, PyObject* shape, PyObject* dtype, PyObject* buffer,
          PyObject* name, PyObject* address, PyObject* partition) {
  const auto set = [](PyObject*& place, PyObject* value) {
    PyObject* old = place;
    place = Py_NewRef(value);
    Py_XDECREF(old);
  };
  const py::object space = space_of.of(buffer);
  const bool chip = PyLong_AsLong(space.ptr()) != static_cast<long>(isa::Space::kHbm);
  const py::object bytes = pitch(shape, dtype, chip);
  // Weak: a cycle would keep the program's memory.
  const auto weak = py::reinterpret_steal<py::object>(PyWeakref_NewRef(recorder, nullptr));
  if (!weak) throw py::error_already_set();
  set(a.id, py::int_(-1).ptr());
  set(a.recorder, weak.ptr());
  set(a.shape, shape);
  set(a.dtype, dtype);
  set(a.buffer, buffer);
  set(a.space, space.ptr());
  set(a.on_chip, chip ? Py_True : Py_False);
  set(a.name, name);
  set(a.address, address);
  set(a.partition, partition);
  set(a.pitch_bytes, bytes.ptr());
  for (PyObject** none : {&a.zeroed_at, &a.array, &a.masked, &a.borrowed}) set(*none, Py_None);
  for (PyObject** no : {&a.narrowed, &a.compared, &a.vector}) set(*no, Py_False);
  set(a.role, py::int_(0).ptr());
}

// Allocation(recorder, shape, dtype, buffer, name, address=None, partition=0)
int initialise_allocation(PyObject* self, PyObject* args, PyObject* kwargs) {
  static std::array<char*, 8> names = {const_cast<char*>("recorder"),  const_cast<char*>("shape"),
                                       const_cast<char*>("dtype"),     const_cast<char*>("buffer"),
                                       const_cast<char*>("name"),      const_cast<char*>("address"),
                                       const_cast<char*>("partition"), nullptr};
  PyObject *recorder = nullptr, *shape = nullptr, *dtype = nullptr, *buffer = nullptr,
           *name = nullptr, *address = Py_None, *partition = nullptr;
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOO|OO", names.data(), &recorder, &shape, &dtype,
                                  &buffer, &name, &address, &partition) == 0) {
    return -1;
  }
  PyObject* done = guarded([&] {
    const py::int_ zero(0);
    fill(*reinterpret_cast<Allocation*>(self), recorder, shape, dtype, buffer, name, address,
         partition == nullptr ? zero.ptr() : partition);
    return Py_NewRef(Py_None);
  });
  if (done == nullptr) return -1;
  Py_DECREF(done);
  return 0;
}

Slot code_of{"code"};
PyTypeObject* allocation_type = nullptr;

}  // namespace

void place_allocation(Recorder& recorder, PyObject* storage, PyObject* role, PyObject* core,
                      PyObject* hbm_address) {
  if (PyObject_TypeCheck(storage, allocation_type) == 0)
    throw py::type_error("a Storage is required");
  auto& a = *reinterpret_cast<Allocation*>(storage);
  const auto set = [](PyObject*& place, const py::object& value) {
    PyObject* old = place;
    place = value.inc_ref().ptr();
    Py_XDECREF(old);
  };
  if (!recorder.own_reference)
    recorder.own_reference = py::reinterpret_borrow<py::object>(a.recorder);
  set(a.core, py::reinterpret_borrow<py::object>(core));
  set(a.role, py::reinterpret_borrow<py::object>(role));
  set(a.born, py::int_(recorder.program.insts().size()));
  const py::int_ zero(0);
  const bool chip = a.on_chip == Py_True;
  PyObject* address = a.address == Py_None ? zero.ptr() : a.address;
  const py::object code = code_of.of(a.dtype);
  const std::array<PyObject*, 8> args = {a.name,      a.space,
                                         code.ptr(),  a.shape,
                                         role,        chip ? core : zero.ptr(),
                                         a.partition, chip ? address : hbm_address};
  const auto [id, name] = recorder.add_tensor(args.data(), static_cast<Py_ssize_t>(args.size()));
  set(a.id, py::int_(id));
  set(a.name, py::str(name));
}

void bind_allocation(py::module_& m) {
  static std::array<PyMemberDef, kNames.size() + 2> members = {};
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    members[i] = {kNames[i], T_OBJECT_EX, static_cast<Py_ssize_t>(kFirst + i * sizeof(PyObject*)),
                  0, nullptr};
  }
  members[kNames.size()] = {"__weaklistoffset__", T_PYSSIZET, offsetof(Allocation, weak), READONLY,
                            nullptr};
  static std::array<PyType_Slot, 8> slots = {{
      {Py_tp_init, reinterpret_cast<void*>(&initialise_allocation)},
      {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse_allocation)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear_allocation)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&release_allocation)},
      {Py_tp_members, members.data()},
      {Py_tp_doc, const_cast<char*>("One allocation of a kernel.")},
      {0, nullptr},
  }};
  py::object made =
      make_class({"nkisim.Allocation", sizeof(Allocation), 0,
                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()});
  m.attr("Allocation") = made;
  allocation_type = reinterpret_cast<PyTypeObject*>(made.release().ptr());
}

}  // namespace nkisim::python
