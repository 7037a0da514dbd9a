#include "python/binding/recorder.hpp"

#include <cstring>

#include "isa/act.hpp"
#include "isa/alu.hpp"

namespace nkisim::python {

Front front;

namespace {

std::string text_of(PyObject* o) {
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

py::object attr(PyObject* o, PyObject* attr_name) {
  PyObject* v = PyObject_GetAttr(o, attr_name);
  if (v == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(v);
}

std::int64_t int_attr(PyObject* o, PyObject* attr_name) {
  const py::object v = attr(o, attr_name);
  const std::int64_t n = PyLong_AsLongLong(v.ptr());
  if (n == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return n;
}

bool is_tensor(PyObject* o) { return Py_TYPE(o) == front.tensor; }
bool is_register(PyObject* o) { return Py_TYPE(o) == front.reg; }

}  // namespace

Recorder::Code& Recorder::code_of(PyCodeObject* code) {
  const auto it = codes_.find(code);
  if (it != codes_.end()) return it->second;
  auto* object = reinterpret_cast<PyObject*>(code);
  Code entry;
  entry.keep = py::reinterpret_borrow<py::object>(object);
  entry.ours = front.is_ours != nullptr && py::handle(front.is_ours)(entry.keep).cast<bool>();
  if (!entry.ours) {
    entry.file = program.add_file(entry.keep.attr("co_filename").cast<std::string>());
  }
  return codes_.emplace(code, std::move(entry)).first->second;
}

std::string Recorder::free_name(const std::string& wanted) {
  if (program.find_tensor(wanted) == nullptr) return wanted;
  std::uint32_t& number = numbered_[wanted];
  std::string name;
  do {
    name = wanted + "." + std::to_string(++number);
  } while (program.find_tensor(name) != nullptr);
  return name;
}

// The innermost frame outside the front end.
SourceLoc Recorder::location() {
  if (fixed_location) return *fixed_location;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    Code& entry = code_of(code);
    Py_DECREF(code);
    if (!entry.ours) {
#if PY_VERSION_HEX >= 0x030B0000
      std::uint32_t& line = entry.lines[PyFrame_GetLasti(frame)];
#else
      std::uint32_t line = 0;
#endif
      if (line == 0) line = static_cast<std::uint32_t>(PyFrame_GetLineNumber(frame));
      Py_DECREF(frame);
      return {0, entry.file, line};
    }
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return {};
}

// Dimensions of size 1 are dropped and adjacent ones merged where the pattern stays the same, so
// that deep views fit the hardware's dimensions. `exact` keeps them (ops that look at dimensions).
void Recorder::add_dims(PyObject* shape, PyObject* strides, bool on_chip, bool exact,
                        std::vector<Dim>& dims) {
  dims.clear();
  const Py_ssize_t n = PyTuple_GET_SIZE(shape);
  for (Py_ssize_t i = on_chip ? 1 : 0; i < n; ++i) {
    const Dim d{PyLong_AsLongLong(PyTuple_GET_ITEM(strides, i)),
                PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i))};
    const bool fixed = exact || (!on_chip && i == 0);  // HBM rows
    const bool after_rows = !on_chip && dims.size() == 1;
    if (!fixed) {
      if (d.num == 1) continue;
      if (!dims.empty() && !after_rows && dims.back().step == d.step * d.num) {
        dims.back() = {d.step, dims.back().num * d.num};
        continue;
      }
    }
    dims.push_back(d);
  }
  if (dims.empty() || (!on_chip && dims.size() == 1 && n > 1)) dims.push_back({1, 1});
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
}

const DynamicOffset* Recorder::dynamic(PyObject* entries) {
  const DynamicOffset* next = nullptr;
  for (Py_ssize_t i = PyTuple_GET_SIZE(entries); i-- > 0;) {
    const auto entry = py::reinterpret_borrow<py::tuple>(PyTuple_GET_ITEM(entries, i));
    const std::string kind = py::str(entry[0]);
    DynamicOffset d;
    if (kind == "register") {
      d.kind = DynamicOffset::Kind::kRegister;
      d.reg = entry[1].cast<std::uint16_t>();
    } else {
      d.kind = kind == "scalar"   ? DynamicOffset::Kind::kScalar
               : kind == "vector" ? DynamicOffset::Kind::kVector
                                  : DynamicOffset::Kind::kIndirect;
      d.index = ref(py::object(entry[1]).ptr(), kind == "indirect");
    }
    d.stride = entry[2].cast<std::int64_t>();
    d.limit = entry[3].cast<std::int64_t>();
    if (const auto group = entry[4].cast<std::int64_t>(); group != 0) d.group = group;
    d.next = next;
    next = program.add_dynamic(d);
  }
  return next;
}

const TensorRef* Recorder::ref(PyObject* tensor, bool exact) {
  PyObject* slot = exact ? front.exact : front.ref;
  const py::object cached = attr(tensor, slot);
  if (PyLong_CheckExact(cached.ptr())) {
    return static_cast<const TensorRef*>(PyLong_AsVoidPtr(cached.ptr()));
  }
  const py::object other = exact ? attr(tensor, front.ref) : cached;
  if (!other.is_none() && !PyLong_CheckExact(other.ptr())) other.attr("complain")();
  const auto id = int_attr(attr(tensor, front.st).ptr(), front.id);
  if (id < 0) throw py::value_error("a tensor is used before it is allocated");
  const Tensor& owner = program.tensor(static_cast<std::uint32_t>(id));
  TensorRef r;
  r.tensor = static_cast<std::uint32_t>(id);
  r.space = owner.space;
  r.dtype = static_cast<Dtype>(int_attr(attr(tensor, front.dtype).ptr(), front.code));
  r.offset = int_attr(tensor, front.off);
  const py::object shape = attr(tensor, front.shape), strides = attr(tensor, front.strides);
  if (r.space != Space::kHbm) {
    const auto n = PyLong_AsLongLong(PyTuple_GET_ITEM(shape.ptr(), 0));
    const auto pitch = owner.extent_bytes() / size_bytes(r.dtype);
    if (n > 1 && PyLong_AsLongLong(PyTuple_GET_ITEM(strides.ptr(), 0)) != pitch) {
      fail(
          "a tensor with a step or broadcast along its partitions; consecutive partitions are "
          "required");
    }
    if (n > 0xffff) fail("a tensor on " + std::to_string(n) + " partitions; at most 128 exist");
    r.partition = static_cast<std::uint16_t>(owner.partition + int_attr(tensor, front.part));
    r.partitions = static_cast<std::uint16_t>(n);
  }
  add_dims(shape.ptr(), strides.ptr(), r.on_chip(), exact, dims_);
  r.pattern = program.intern(dims_);
  const py::object dyn = attr(tensor, front.dyn);
  if (!dyn.is_none()) r.dynamic = dynamic(dyn.ptr());
  const TensorRef* made = program.add_ref(r);
  const py::object handle =
      py::reinterpret_steal<py::object>(PyLong_FromVoidPtr(const_cast<TensorRef*>(made)));
  if (PyObject_SetAttr(tensor, slot, handle.ptr()) != 0) throw py::error_already_set();
  return made;
}

[[noreturn]] static void refuse(const Param& param, PyObject* value, const std::string& required) {
  fail(param.name, text_of(value), required);
}

static std::int64_t to_int(const Param& param, PyObject* value) {
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

static Arg int_arg(Arg::Kind kind, std::int64_t v) {
  Arg a;
  a.kind = kind;
  a.integer = v;
  return a;
}

static Arg number(const Param& param, PyObject* value) {
  if (PyBool_Check(value)) return int_arg(Arg::Kind::kBool, value == Py_True ? 1 : 0);
  if (PyLong_Check(value)) return int_arg(Arg::Kind::kInt, to_int(param, value));
  Arg a;
  a.kind = Arg::Kind::kReal;
  if (!PyFloat_Check(value) && PyIndex_Check(value)) {
    return int_arg(Arg::Kind::kInt, to_int(param, value));
  }
  a.real = PyFloat_AsDouble(value);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    refuse(param, value, param.kind == ParamKind::kReal ? "a number" : "a number or a tensor");
  }
  return a;
}

static Arg token(const Param& param, PyObject* value, PyObject* codes, const char* required) {
  PyObject* hit = PyDict_GetItemWithError(codes, value);
  if (hit == nullptr) {
    PyErr_Clear();
    refuse(param, value, required);
  }
  return int_arg(Arg::Kind::kEnum, PyLong_AsLongLong(hit));
}

static Arg choice(const Param& param, PyObject* value) {
  if (PyLong_CheckExact(value)) return int_arg(Arg::Kind::kEnum, PyLong_AsLongLong(value));
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

static void flatten(const Param& param, PyObject* value, IntList& out) {
  if (PyList_Check(value) || PyTuple_Check(value)) {
    const py::object fast = py::reinterpret_steal<py::object>(PySequence_Fast(value, ""));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.ptr()); ++i) {
      flatten(param, PySequence_Fast_GET_ITEM(fast.ptr(), i), out);
    }
    return;
  }
  out.push_back(to_int(param, value));
}

Arg Recorder::convert(const Param& param, PyObject* value, bool exact) {
  if (value == Py_None) return {};
  Arg a;
  switch (param.kind) {
    case ParamKind::kIn:
    case ParamKind::kOut:
    case ParamKind::kInOut:
      if (!is_tensor(value)) refuse(param, value, "a tensor");
      a.kind = Arg::Kind::kTensor;
      a.tensor = ref(value, exact);
      return a;
    case ParamKind::kInList: {
      if (!PyList_Check(value) && !PyTuple_Check(value)) refuse(param, value, "a list of tensors");
      RefList list;
      for (const py::handle item : py::reinterpret_borrow<py::sequence>(value)) {
        if (!is_tensor(item.ptr())) refuse(param, item.ptr(), "a tensor");
        list.push_back(ref(item.ptr(), exact));
      }
      a.kind = Arg::Kind::kTensors;
      a.tensors = program.add_refs(std::move(list));
      return a;
    }
    case ParamKind::kScalarOrTensor:
      if (!is_tensor(value)) return number(param, value);
      a.kind = Arg::Kind::kTensor;
      a.tensor = ref(value, exact);
      return a;
    case ParamKind::kReal:
      return number(param, value);
    case ParamKind::kIntOrRegister:
      if (is_register(value)) return int_arg(Arg::Kind::kRegister, int_attr(value, front.id));
      [[fallthrough]];
    case ParamKind::kInt:
      return int_arg(Arg::Kind::kInt, to_int(param, value));
    case ParamKind::kBool: {
      const int truth = PyObject_IsTrue(value);
      if (truth < 0) throw py::error_already_set();
      return int_arg(Arg::Kind::kBool, truth);
    }
    case ParamKind::kAlu:
      return token(param, value, front.alu, "an ALU operator of nki.language");
    case ParamKind::kAct:
      return token(param, value, front.act, "an activation function of nki.language");
    case ParamKind::kDtype:
      return int_arg(Arg::Kind::kInt, int_attr(value, front.code));
    case ParamKind::kEnum:
      return choice(param, value);
    case ParamKind::kIntList: {
      IntList list;
      flatten(param, value, list);
      a.kind = Arg::Kind::kList;
      a.list = program.add_list(std::move(list));
      return a;
    }
    case ParamKind::kRegister:
      if (!is_register(value)) refuse(param, value, "a register");
      return int_arg(Arg::Kind::kRegister, int_attr(value, front.id));
    case ParamKind::kOpcode:
      return int_arg(
          Arg::Kind::kInt,
          static_cast<std::int64_t>(program.add_opcode(std::string(py::str(py::handle(value))))));
    case ParamKind::kText:
      a.kind = Arg::Kind::kText;
      a.text = program.add_text(std::string(py::str(py::handle(value))));
      return a;
  }
  return a;
}

// PSUM: a matmul that leaves `accumulate` open overwrites what nobody wrote since allocation (or
// since a memset to zero) and adds to the rest.
void Recorder::infer_accumulate(const OpSpec& op, std::span<Arg> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Param& param = op.params[i];
    const Arg& arg = values[i];
    if (arg.kind != Arg::Kind::kTensor || arg.tensor->space != Space::kPsum) continue;
    if (param.kind != ParamKind::kOut && param.kind != ParamKind::kInOut) continue;
    const int open = param_index(op, "accumulate");
    if (open >= 0 && !values[static_cast<std::size_t>(open)].present()) {
      values[static_cast<std::size_t>(open)] =
          int_arg(Arg::Kind::kBool, psum_.any(program, *arg.tensor) ? 1 : 0);
    }
    const int value = param_index(op, "value");
    const bool zero =
        value >= 0 && op.name == "memset" && values[static_cast<std::size_t>(value)].integer == 0;
    psum_.mark(program, *arg.tensor, !zero);
  }
}

// append(op, args tuple, engine, core, label, exact)
void Recorder::append(PyObject* const* args, Py_ssize_t count) {
  if (count != 6 || !PyTuple_Check(args[1])) throw py::type_error("append takes six arguments");
  Inst inst;
  inst.op = static_cast<Op>(PyLong_AsLong(args[0]));
  if (static_cast<int>(inst.op) >= kOpCount) throw py::index_error("unknown op");
  const OpSpec& op = spec(inst.op);
  const bool exact = args[5] == Py_True;
  inst.core = static_cast<std::uint8_t>(PyLong_AsLong(args[3]));
  inst.loc = location();
  std::array<Arg, kMaxArgs> values;
  const auto n = static_cast<std::size_t>(PyTuple_GET_SIZE(args[1]));
  if (n != op.params.size()) throw py::type_error("wrong number of arguments for the op");
  try {
    if (args[2] != Py_None) {
      PyObject* engine = PyDict_GetItemWithError(front.engines, args[2]);
      if (engine == nullptr) {
        PyErr_Clear();
        fail("engine", text_of(args[2]), "one of nki.isa.engine");
      }
      inst.engine = static_cast<Engine>(PyLong_AsLong(engine));
    }
    for (std::size_t i = 0; i < n; ++i) {
      values[i] =
          convert(op.params[i], PyTuple_GET_ITEM(args[1], static_cast<Py_ssize_t>(i)), exact);
    }
  } catch (Error& e) {
    e.at(op.name, inst.loc);
    program.locate(e);
    throw;
  }
  infer_accumulate(op, {values.data(), n});
  if (args[4] != Py_None) inst.label = program.add_text(std::string(py::str(args[4])));
  program.append(inst, std::span<const Arg>(values.data(), n));
}

void intern_names() {
  const std::pair<PyObject**, const char*> names[] = {{&front.st, "st"},
                                                      {&front.part, "part"},
                                                      {&front.off, "off"},
                                                      {&front.shape, "shape"},
                                                      {&front.strides, "strides"},
                                                      {&front.dtype, "dtype"},
                                                      {&front.dyn, "dyn"},
                                                      {&front.ref, "_ref"},
                                                      {&front.exact, "_exact"},
                                                      {&front.id, "id"},
                                                      {&front.space, "space"},
                                                      {&front.code, "code"},
                                                      {&front.pitch, "pitch_bytes"},
                                                      {&front.partition, "partition"},
                                                      {&front.name, "name"}};
  for (const auto& [where, text] : names) *where = PyUnicode_InternFromString(text);
}

}  // namespace nkisim::python
