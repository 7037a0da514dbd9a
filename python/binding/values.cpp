// Converts Python numbers, lists and enumerators to arguments of an instruction.

#include "python/binding/values.hpp"

#include "python/binding/front.hpp"

namespace nkisim::python {

using isa::Arg;
using isa::Param;
using isa::ParamKind;

void refuse(const Param& param, PyObject* value, const std::string& required) {
  isa::fail(isa::Rule::python_value, param.name, text_of(value), required);
}

Arg int_arg(Arg::Kind kind, std::int64_t v) {
  Arg a;
  a.kind = kind;
  a.integer = v;
  return a;
}

std::int64_t to_int(const Param& param, PyObject* value) {
  const py::object n = py::reinterpret_steal<py::object>(PyNumber_Index(value));
  if (!n) {
    PyErr_Clear();
    refuse(param, value, "an integer");
  }
  const std::int64_t v = PyLong_AsLongLong(n.ptr());
  if (v == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(param, value, "an integer of 64 bits");
  }
  return v;
}

Arg number(const Param& param, PyObject* value) {
  if (PyBool_Check(value)) return int_arg(Arg::Kind::kBool, value == Py_True ? 1 : 0);
  if (PyLong_Check(value) || (!PyFloat_Check(value) && PyIndex_Check(value))) {
    return int_arg(Arg::Kind::kInt, to_int(param, value));
  }
  Arg a;
  a.kind = Arg::Kind::kReal;
  a.real = PyFloat_AsDouble(value);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(param, value, param.kind == ParamKind::kReal ? "a number" : "a number or a tensor");
  }
  return a;
}

Arg truth(PyObject* value) {
  const int known = PyObject_IsTrue(value);
  if (known < 0) throw py::error_already_set();
  return int_arg(Arg::Kind::kBool, known);
}

Arg token(const Param& param, PyObject* value, PyObject* codes, const char* required) {
  PyObject* hit = PyDict_GetItemWithError(codes, value);
  if (hit == nullptr) {
    PyErr_Clear();
    refuse(param, value, required);
  }
  return int_arg(Arg::Kind::kEnum, PyLong_AsLongLong(hit));
}

Arg choice(const Param& param, PyObject* value) {
  if (PyLong_CheckExact(value)) return int_arg(Arg::Kind::kEnum, to_int(param, value));
  py::object word = py::reinterpret_borrow<py::object>(value);
  if (!PyUnicode_Check(value) && py::hasattr(word, "name")) word = word.attr("name");
  const std::string wanted = py::str(word);
  std::string all;
  for (std::size_t i = 0; i < param.choices.size(); ++i) {
    if (param.choices[i] == wanted) {
      return int_arg(Arg::Kind::kEnum, static_cast<std::int64_t>(i));
    }
    all += (i == 0 ? "" : ", ") + std::string(param.choices[i]);
  }
  refuse(param, value, "one of " + all);
}

static void flatten(const Param& param, PyObject* value, isa::IntList& out) {
  if (PyList_Check(value) || PyTuple_Check(value)) {
    const py::object fast = py::reinterpret_steal<py::object>(PySequence_Fast(value, ""));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.ptr()); ++i) {
      flatten(param, PySequence_Fast_GET_ITEM(fast.ptr(), i), out);
    }
    return;
  }
  out.push_back(to_int(param, value));
}

isa::IntList int_list(const Param& param, PyObject* value) {
  isa::IntList list;
  flatten(param, value, list);
  return list;
}

}  // namespace nkisim::python
