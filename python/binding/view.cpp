// Implements the C++ base class of NkiTensor (a view of memory), with integer and slice subscripts.

#include "python/binding/view.hpp"

#include <structmember.h>

#include <array>
#include <cstddef>

#include "python/binding/front.hpp"
#include "python/binding/tiles.hpp"

namespace nkisim::python {
namespace {

namespace py = pybind11;

constexpr Py_ssize_t kMostViewDims = 16;  // of subscripts that are worked off here

// Objects that Python registers: select(view, key) of all subscripts, the class nl.ds.
PyObject* select_view = nullptr;
PyTypeObject* range_type = nullptr;
Slot range_start{"start"}, range_size{"size"}, on_chip_of{"on_chip"}, item_bytes_of{"itemsize"},
    code_of_dtype{"code"};

constexpr std::array kParts = {&View::st,    &View::shape, &View::strides,
                               &View::dtype, &View::dyn,   &View::held};

int traverse_view(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  for (const auto part : kParts) Py_VISIT(view_of(self).*part);
  return 0;
}

int clear_view(PyObject* self) {
  for (const auto part : kParts) Py_CLEAR(view_of(self).*part);
  return 0;
}

void release_view(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (view_of(self).weak != nullptr) PyObject_ClearWeakRefs(self);
  clear_view(self);
  type->tp_free(self);
  Py_DECREF(type);
}

void put(PyObject*& place, PyObject* value) {
  PyObject* old = place;
  place = Py_NewRef(value);
  Py_XDECREF(old);
}

// View(st, part, off, shape, strides, dtype, dyn=None)
int initialise_view(PyObject* self, PyObject* args, PyObject* kwargs) {
  static std::array<char*, 8> names = {const_cast<char*>("st"),      const_cast<char*>("part"),
                                       const_cast<char*>("off"),     const_cast<char*>("shape"),
                                       const_cast<char*>("strides"), const_cast<char*>("dtype"),
                                       const_cast<char*>("dyn"),     nullptr};
  PyObject *st = nullptr, *shape = nullptr, *strides = nullptr, *dtype = nullptr, *dyn = Py_None;
  long long part = 0, off = 0;
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "OLLOOO|O", names.data(), &st, &part, &off, &shape,
                                  &strides, &dtype, &dyn) == 0) {
    return -1;
  }
  View& v = view_of(self);
  try {
    v.item_bytes = static_cast<std::int32_t>(item_bytes_of.integer_of(dtype));
    v.code = py::hasattr(dtype, "code") ? static_cast<std::int32_t>(code_of_dtype.integer_of(dtype))
                                        : -1;
  } catch (py::error_already_set& e) {
    e.restore();
    return -1;
  }
  put(v.st, st);
  put(v.shape, shape);
  put(v.strides, strides);
  put(v.dtype, dtype);
  put(v.dyn, dyn);
  put(v.held, Py_None);
  v.part = part;
  v.off = off;
  v.ref = v.exact = nullptr;
  return 0;
}

// The part of a dimension of `size` that one entry of a key selects.
struct Range {
  std::int64_t start = 0, count = 1;
  bool keeps = true;  // an integer does not keep the dimension
};

bool range_of(PyObject* entry, std::int64_t size, Range& out) {
  std::int64_t stop = size;
  if (PySlice_Check(entry)) {
    const auto& slice = *reinterpret_cast<PySliceObject*>(entry);
    if (slice.step != Py_None) return false;
    if (slice.start != Py_None && !plain_int(slice.start, out.start)) return false;
    if (slice.stop != Py_None && !plain_int(slice.stop, stop)) return false;
    return out.start >= 0 && stop <= size && (out.count = stop - out.start) > 0;
  }
  if (Py_TYPE(entry) == range_type) {
    if (!plain_int(range_start.of(entry).ptr(), out.start)) return false;
    if (!plain_int(range_size.of(entry).ptr(), out.count)) return false;
  } else {
    out.keeps = false;
    out.count = 1;
    if (!plain_int(entry, out.start)) return false;
  }
  return out.start >= 0 && out.count > 0 && out.count <= size && out.start <= size - out.count;
}

// A subscript of integers and slices without a step, dimension by dimension.
struct Subscript {
  explicit Subscript(const View& from)
      : on_chip(on_chip_of.of(from.st).ptr() == Py_True), part(from.part), off(from.off) {}
  // False if another way must be found.
  bool take(const View& from, PyObject* const* key, Py_ssize_t count);

  bool on_chip;
  std::int64_t part, off;
  Py_ssize_t kept = 0;
  bool dropped = false;                                 // a dimension
  std::array<std::int64_t, kMostViewDims> counts = {};  // of the dimensions that are kept
  std::array<Py_ssize_t, kMostViewDims> dims = {};      // which these are
};

bool Subscript::take(const View& from, PyObject* const* key, Py_ssize_t count) {
  const Py_ssize_t n = PyTuple_GET_SIZE(from.shape);
  if (count > n || n > kMostViewDims) return false;
  for (Py_ssize_t d = 0; d < n; ++d) {
    std::int64_t size = 0, stride = 0;
    if (!plain_int(PyTuple_GET_ITEM(from.shape, d), size)) return false;
    Range range{.start = 0, .count = size};
    if (d < count && !range_of(key[d], size, range)) return false;
    const bool on_partitions = d == 0 && on_chip;
    if (on_partitions) {
      part += range.start;
    } else if (range.start != 0) {
      std::int64_t bytes = 0;
      if (!plain_int(PyTuple_GET_ITEM(from.strides, d), stride)) return false;
      if (__builtin_mul_overflow(range.start * from.item_bytes, stride, &bytes)) return false;
      if (__builtin_add_overflow(off, bytes, &off)) return false;
    }
    if (!range.keeps && !on_partitions) {
      dropped = true;
      continue;
    }
    counts[static_cast<std::size_t>(kept)] = range.count;
    dims[static_cast<std::size_t>(kept++)] = d;
  }
  return true;
}

// (counts) and (strides) of the dimensions that are kept, and of one more if there are too few.
py::object shape_of(const View& from, const Subscript& s) {
  const bool fill = s.kept < 2 && (s.on_chip || s.kept == 0);
  auto made = py::reinterpret_steal<py::object>(PyTuple_New(s.kept + (fill ? 1 : 0)));
  if (!made) throw py::error_already_set();
  for (Py_ssize_t i = 0; i < s.kept; ++i) {
    const auto at = static_cast<std::size_t>(i);
    PyObject* whole = PyTuple_GET_ITEM(from.shape, s.dims[at]);
    const std::int64_t count = s.counts[at];
    PyObject* item =
        PyLong_AsLongLong(whole) == count ? Py_NewRef(whole) : PyLong_FromLongLong(count);
    PyTuple_SET_ITEM(made.ptr(), i, item);
  }
  if (fill) PyTuple_SET_ITEM(made.ptr(), s.kept, PyLong_FromLong(1));
  return made;
}

py::object strides_of(const View& from, const Subscript& s) {
  const bool fill = s.kept < 2 && (s.on_chip || s.kept == 0);
  if (!s.dropped && !fill) return py::reinterpret_borrow<py::object>(from.strides);
  auto made = py::reinterpret_steal<py::object>(PyTuple_New(s.kept + (fill ? 1 : 0)));
  if (!made) throw py::error_already_set();
  for (Py_ssize_t i = 0; i < s.kept; ++i) {
    PyObject* stride = PyTuple_GET_ITEM(from.strides, s.dims[static_cast<std::size_t>(i)]);
    PyTuple_SET_ITEM(made.ptr(), i, Py_NewRef(stride));
  }
  if (fill) PyTuple_SET_ITEM(made.ptr(), s.kept, PyLong_FromLong(1));
  return made;
}

PyObject* view_like(PyObject* self, std::int64_t part, std::int64_t off, py::object shape,
                    py::object strides) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject* made = type->tp_alloc(type, 0);
  if (made == nullptr) throw py::error_already_set();
  View& v = view_of(made);
  const View& from = view_of(self);
  v.st = Py_NewRef(from.st);
  v.shape = shape.release().ptr();
  v.strides = strides.release().ptr();
  v.dtype = Py_NewRef(from.dtype);
  v.dyn = Py_NewRef(from.dyn);
  v.held = Py_NewRef(Py_None);
  v.part = part;
  v.off = off;
  v.item_bytes = from.item_bytes;
  v.code = from.code;
  return made;
}

PyObject* subscript_view(PyObject* self, PyObject* key) {
  return guarded([&]() -> PyObject* {
    const bool several = PyTuple_CheckExact(key);
    PyObject* const* entries = several ? &PyTuple_GET_ITEM(key, 0) : &key;
    const View& from = view_of(self);
    if (from.dyn == Py_None) {
      Subscript s(from);
      if (s.take(from, entries, several ? PyTuple_GET_SIZE(key) : 1)) {
        return view_like(self, s.part, s.off, shape_of(from, s), strides_of(from, s));
      }
      const Planned found = planned(self, entries, several ? PyTuple_GET_SIZE(key) : 1, s.on_chip);
      if (found.parts) {
        return view_like(self, found.parts->part, found.parts->off,
                         py::reinterpret_borrow<py::object>(found.parts->shape),
                         py::reinterpret_borrow<py::object>(found.parts->strides));
      }
      if (found.view) return Py_NewRef(found.view.ptr());
    }
    const py::object all = several ? py::reinterpret_borrow<py::object>(key)
                                   : py::reinterpret_steal<py::object>(PyTuple_Pack(1, key));
    return PyObject_CallFunctionObjArgs(select_view, self, all.ptr(), nullptr);
  });
}

// register_subscripts(select, ds)
void register_subscripts(const py::object& select, const py::object& ds) {
  select_view = py::object(select).release().ptr();
  range_type = reinterpret_cast<PyTypeObject*>(py::object(ds).release().ptr());
}

}  // namespace

void bind_view(py::module_& m) {
  static std::array<PyMemberDef, 10> members = {{
      {"st", T_OBJECT_EX, offsetof(View, st), READONLY, nullptr},
      {"part", T_LONGLONG, offsetof(View, part), READONLY, nullptr},
      {"off", T_LONGLONG, offsetof(View, off), READONLY, nullptr},
      {"shape", T_OBJECT_EX, offsetof(View, shape), READONLY, nullptr},
      {"strides", T_OBJECT_EX, offsetof(View, strides), READONLY, nullptr},
      {"dtype", T_OBJECT_EX, offsetof(View, dtype), READONLY, nullptr},
      {"dyn", T_OBJECT_EX, offsetof(View, dyn), READONLY, nullptr},
      {"_ref", T_OBJECT_EX, offsetof(View, held), 0, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(View, weak), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr},
  }};
  static std::array<PyType_Slot, 9> slots = {{
      {Py_tp_init, reinterpret_cast<void*>(&initialise_view)},
      {Py_tp_new, reinterpret_cast<void*>(&PyType_GenericNew)},
      {Py_tp_traverse, reinterpret_cast<void*>(&traverse_view)},
      {Py_tp_clear, reinterpret_cast<void*>(&clear_view)},
      {Py_tp_dealloc, reinterpret_cast<void*>(&release_view)},
      {Py_tp_members, members.data()},
      {Py_mp_subscript, reinterpret_cast<void*>(&subscript_view)},
      {Py_tp_doc, const_cast<char*>("A view of a storage.")},
      {0, nullptr},
  }};
  m.attr("View") =
      make_class({"nkisim.View", sizeof(View), 0,
                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots.data()});
  m.def("register_subscripts", &register_subscripts);
}

}  // namespace nkisim::python
