// Caches the result of subscripts by index tiles (nl.arange), and applies it to a view.

#include "python/binding/tiles.hpp"

#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "python/binding/front.hpp"

namespace nkisim::python {
namespace {

// Objects that Python registers: the class Expr and plan(view, key). plan gives view[key] and the
// (low, high) of each index tile without its constant, or None where it goes beyond the view.
PyTypeObject* tile_type = nullptr;
PyObject* make_plan = nullptr;
Slot const_of{"const"}, coefs_of{"coefs"}, extents_of{"extents"}, axes_of{"ndim"}, row_of{"row"},
    column_of{"column"};

// A key without its constants, and the view's form: tiles that differ in their constants only share
// their other parts, so that those parts' addresses tell keys apart.
using Form = std::vector<std::int64_t>;

struct FormHash {
  std::size_t operator()(const Form& form) const {
    std::uint64_t h = 0xcbf29ce484222325ULL;
    for (const std::int64_t n : form) h = (h ^ static_cast<std::uint64_t>(n)) * 0x100000001b3ULL;
    return static_cast<std::size_t>(h ^ (h >> 32U));
  }
};

struct Plan {
  std::vector<py::object> kept;  // whose addresses are in the form
  py::object shape, strides;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
};

// Never destroyed: the interpreter may be gone by then.
std::unordered_map<Form, Plan, FormHash>& plans() {
  static auto* const kPlans = new std::unordered_map<Form, Plan, FormHash>;
  return *kPlans;
}

constexpr std::size_t kMostPlans = 4096, kMostTileDims = 16;

// The constants of a key; nothing if it has anything but index tiles and integers of 0 and more.
bool take_form(const View& view, PyObject* const* key, std::size_t count, Form& form,
               std::array<std::int64_t, kMostTileDims>& constants) {
  for (std::size_t d = 0; d < count; ++d) {
    std::int64_t size = 0, stride = 0;
    const auto at = static_cast<Py_ssize_t>(d);
    if (!plain_int(PyTuple_GET_ITEM(view.shape, at), size)) return false;
    if (!plain_int(PyTuple_GET_ITEM(view.strides, at), stride)) return false;
    form.insert(form.end(), {size, stride});
    if (Py_TYPE(key[d]) != tile_type) {
      if (!plain_int(key[d], constants[d]) || constants[d] < 0) return false;
      form.push_back(0);
      continue;
    }
    if (!plain_int(const_of.of(key[d]).ptr(), constants[d])) return false;
    for (Slot* part : {&coefs_of, &extents_of}) {
      form.push_back(
          static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(part->of(key[d]).ptr())));
    }
    form.push_back(axes_of.integer_of(key[d]));
  }
  return true;
}

// Calls plan() and caches its result unless it goes beyond the view.
py::object first_of(Form form, PyObject* view, PyObject* const* key, Py_ssize_t count) {
  const auto all = py::reinterpret_steal<py::tuple>(PyTuple_New(count));
  if (!all) throw py::error_already_set();
  for (Py_ssize_t d = 0; d < count; ++d) PyTuple_SET_ITEM(all.ptr(), d, Py_NewRef(key[d]));
  const py::tuple found = py::handle(make_plan)(py::handle(view), all);
  if (!found[1].is_none()) {
    Plan plan;
    for (Py_ssize_t d = 0; d < count; ++d) {
      if (Py_TYPE(key[d]) != tile_type) continue;
      plan.kept.push_back(coefs_of.of(key[d]));
      plan.kept.push_back(extents_of.of(key[d]));
    }
    const View& made = view_of(py::object(found[0]).ptr());
    plan.shape = py::reinterpret_borrow<py::object>(made.shape);
    plan.strides = py::reinterpret_borrow<py::object>(made.strides);
    for (const py::handle range : py::tuple(found[1])) {
      plan.ranges.push_back(range.cast<std::pair<std::int64_t, std::int64_t>>());
    }
    if (plans().size() >= kMostPlans) plans().clear();
    plans().emplace(std::move(form), std::move(plan));
  }
  return found[0];
}

// shifted(tile, const): the tile with another constant.
PyObject* shifted(PyObject*, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    if (count != 2 || Py_TYPE(args[0]) != tile_type) {
      throw py::type_error("shifted takes an index tile and a constant");
    }
    auto made = py::reinterpret_steal<py::object>(tile_type->tp_alloc(tile_type, 0));
    if (!made) throw py::error_already_set();
    const_of.set(made.ptr(), py::reinterpret_borrow<py::object>(args[1]));
    for (Slot* part : {&coefs_of, &extents_of, &axes_of}) {
      part->set(made.ptr(), part->of(args[0]));
    }
    for (Slot* none : {&row_of, &column_of}) none->set(made.ptr(), py::none());
    return made.release().ptr();
  });
}

}  // namespace

Planned planned(PyObject* view, PyObject* const* key, Py_ssize_t count, bool on_chip) {
  const View& from = view_of(view);
  const auto n = static_cast<std::size_t>(count);
  if (tile_type == nullptr || n == 0 || n > kMostTileDims ||
      count != PyTuple_GET_SIZE(from.shape)) {
    return {};
  }
  if (Py_TYPE(key[0]) != tile_type && Py_TYPE(key[n - 1]) != tile_type) return {};
  std::array<std::int64_t, kMostTileDims> constants = {};
  Form form;
  form.reserve(1 + 5 * n);
  form.push_back(on_chip ? 1 : 0);
  if (!take_form(from, key, n, form, constants)) return {};
  const auto known = plans().find(form);
  if (known == plans().end())
    return {.parts = {}, .view = first_of(std::move(form), view, key, count)};
  const Plan& plan = known->second;
  Selected out{from.part, from.off, plan.shape.ptr(), plan.strides.ptr()};
  for (std::size_t d = 0; d < n; ++d) {
    const auto [low, high] = plan.ranges[d];
    std::int64_t size = 0, stride = 0;
    if (!plain_int(PyTuple_GET_ITEM(from.shape, static_cast<Py_ssize_t>(d)), size)) return {};
    if (!plain_int(PyTuple_GET_ITEM(from.strides, static_cast<Py_ssize_t>(d)), stride)) return {};
    if (constants[d] > size || constants[d] + low < 0 || constants[d] + high >= size) return {};
    if (d == 0 && on_chip) {
      out.part += constants[d];
    } else {
      std::int64_t bytes = 0;
      if (__builtin_mul_overflow(constants[d] * from.item_bytes, stride, &bytes)) return {};
      if (__builtin_add_overflow(out.off, bytes, &out.off)) return {};
    }
  }
  return {.parts = out, .view = {}};
}

void bind_tiles(py::module_& m) {
  static PyMethodDef method = {
      "shifted", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&shifted)),
      METH_FASTCALL, nullptr};
  m.attr("shifted") =
      py::reinterpret_steal<py::object>(PyCFunction_NewEx(&method, nullptr, nullptr));
  m.def("register_tiles", [](const py::object& tile, const py::object& plan) {
    tile_type = reinterpret_cast<PyTypeObject*>(py::object(tile).release().ptr());
    make_plan = py::object(plan).release().ptr();
  });
}

}  // namespace nkisim::python
