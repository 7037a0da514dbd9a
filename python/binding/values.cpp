// Converts Python numbers, lists and enumerators to arguments of an instruction.

#include "python/binding/values.hpp"

#include <string_view>
#include <vector>

#include "isa/base/nearest.hpp"
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

// A member of an enumeration is an integer to Python, and no number that an instruction takes.
static void refuse_choice(const Param& param, PyObject* value, const char* required) {
  if (is_choice(value)) refuse(param, value, required);
}

std::int64_t to_int(const Param& param, PyObject* value) {
  refuse_choice(param, value, "an integer");
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
  refuse_choice(param, value, "a number");
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

Arg truth(const Param& param, PyObject* value) {
  if (PyBool_Check(value)) return int_arg(Arg::Kind::kBool, value == Py_True ? 1 : 0);
  const bool of_numpy = std::string_view(Py_TYPE(value)->tp_name).starts_with("numpy.bool");
  const bool number =
      PyIndex_Check(value) && !is_tensor(value) && !is_register(value) && !is_choice(value);
  const int known = of_numpy || number ? PyObject_IsTrue(value) : -1;
  if (known < 0) {
    PyErr_Clear();
    refuse(param, value, "True or False");
  }
  return int_arg(Arg::Kind::kBool, known);
}

static PyObject* entry_of(PyObject* dict, PyObject* value) {
  PyObject* found = PyDict_GetItemWithError(dict, value);
  if (found == nullptr) PyErr_Clear();  // it may have no hash
  return found;
}

static Arg code_arg(PyObject* code) { return int_arg(Arg::Kind::kEnum, PyLong_AsLongLong(code)); }

// "; did you mean multiply?" of the texts among a dict's keys; empty for what is no text.
static std::string nearest_text(PyObject* dict, PyObject* value) {
  if (!PyUnicode_Check(value)) return {};
  std::vector<std::string> texts;
  for (const auto& [key, code] : py::reinterpret_borrow<py::dict>(dict)) {
    if (PyUnicode_Check(key.ptr())) texts.push_back(py::str(key));
  }
  return isa::suggest(std::string(py::str(py::handle(value))), {texts.begin(), texts.end()});
}

// An operator that has another spelling than nki.language's, such as a text: it is reported where
// the kernel's API has none.
static Arg alias_arg(const Param& param, PyObject* value, PyObject* aliases, bool others,
                     const char* required) {
  PyObject* code = entry_of(aliases, value);
  if (code == nullptr) {
    isa::fail(isa::Rule::python_value, param.name, text_of(value), required,
              nearest_text(aliases, value));
  }
  if (!others || PyUnicode_Check(value)) py::handle(front.alias)(py::handle(value));
  return code_arg(code);
}

Arg alu_arg(const Param& param, PyObject* value, bool others) {
  if (PyObject* own = entry_of(front.alu, value)) return code_arg(own);
  const bool act =
      entry_of(front.act, value) != nullptr || entry_of(front.act_aliases, value) != nullptr;
  return alias_arg(param, value, front.alu_aliases, others,
                   act ? "an ALU operator of nki.language (nisa.activation applies it)"
                       : "an ALU operator of nki.language");
}

Arg act_arg(const Param& param, PyObject* value, bool others) {
  if (PyObject* own = entry_of(front.act, value)) return code_arg(own);
  return alias_arg(param, value, front.act_aliases, others,
                   "an activation function of nki.language");
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
