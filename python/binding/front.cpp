// Stores the Python classes that the front end registers, reads their slots and raises errors.

#include "python/binding/front.hpp"

#include <structmember.h>

#include <array>

namespace nkisim::python {

Front front;

std::int64_t Slot::integer_of(PyObject* owner) {
  const py::object value = of(owner);
  const std::int64_t n = PyLong_AsLongLong(value.ptr());
  if (n == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return n;
}

void Slot::set(PyObject* owner, const py::object& value) {
  if (PyObject** place = place_in(owner)) {
    PyObject* old = *place;
    *place = value.inc_ref().ptr();
    Py_XDECREF(old);
    return;
  }
  if (PyObject_SetAttr(owner, name(), value.ptr()) != 0) throw py::error_already_set();
}

void Slot::resolve(PyTypeObject* type) {
  Py_INCREF(type);  // its address must not be another type's later
  Py_XDECREF(type_);
  type_ = type;
  offset_ = 0;
  const py::object found = py::reinterpret_steal<py::object>(
      PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name()));
  if (!found) {
    PyErr_Clear();
    return;
  }
  if (Py_TYPE(found.ptr()) != &PyMemberDescr_Type) return;
  const PyMemberDef& member = *reinterpret_cast<PyMemberDescrObject*>(found.ptr())->d_member;
  if (member.type == T_OBJECT_EX && (member.flags & READONLY) == 0) offset_ = member.offset;
}

PyObject* Slot::name() {
  if (name_ == nullptr) name_ = PyUnicode_InternFromString(text_);
  return name_;
}

py::object Slot::look_up(PyObject* owner) {
  PyObject* value = PyObject_GetAttr(owner, name());
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

void register_front(const py::dict& what) {
  const auto take = [&](const char* key) { return py::object(what[key]).release().ptr(); };
  front.tensor = reinterpret_cast<PyTypeObject*>(take("tensor"));
  front.reg = reinterpret_cast<PyTypeObject*>(take("register"));
  front.choice = reinterpret_cast<PyTypeObject*>(take("choice"));
  front.alu = take("alu");
  front.act = take("act");
  front.alu_aliases = take("alu_aliases");
  front.act_aliases = take("act_aliases");
  front.alias = take("alias");
  front.engines = take("engines");
  front.raw_enum = take("raw_enum");
  front.error = take("error");
  front.is_ours = take("is_ours");
}

std::string text_of(PyObject* o) {
  if (PyFunction_Check(o)) {  // its repr has an address
    const auto* function = reinterpret_cast<PyFunctionObject*>(o);
    return "the function " + std::string(py::str(py::handle(function->func_name)));
  }
  py::object r = py::reinterpret_steal<py::object>(PyObject_Repr(o));
  if (!r) {
    PyErr_Clear();
    return "?";
  }
  std::string s;
  for (const char c : std::string(py::str(r))) {  // an array's lines become one
    const bool space = c == ' ' || c == '\n';
    if (!space || (!s.empty() && s.back() != ' ')) s += space ? ' ' : c;
  }
  if (s.size() > 80) s = s.substr(0, 77) + "...";
  return s;
}

void raise(const isa::Error& e) {
  static constexpr std::array<const char*, 3> kCodes = {"usage", "bad_input", "internal"};
  if (front.error == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return;
  }
  const isa::SourceLoc& loc = e.loc();
  const py::object error = py::handle(front.error)(
      e.message(), kCodes[static_cast<std::size_t>(e.code())], e.instruction(), loc.trace_line,
      e.kernel_file(), loc.kernel_line, name(e.rule()), e.operand(), e.found(), e.required());
  if (e.limit() > 0) error.attr("limit") = e.limit();
  PyErr_SetObject(front.error, error.ptr());
}

}  // namespace nkisim::python
