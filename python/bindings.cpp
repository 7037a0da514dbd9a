// The extension module nkisim._core: builds a Program from recorded calls, evaluates it, runs it.
//
// Recording is the hot path, so Program.append is a plain C function and reads the Python tensors'
// slots directly. Everything else goes through pybind11.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "isa/act.hpp"
#include "isa/alu.hpp"
#include "isa/interpreter.hpp"
#include "isa/memory.hpp"
#include "isa/program.hpp"
#include "python/psum_writes.hpp"
#include "src/config_json.hpp"
#include "src/simulation.hpp"
#include "src/trace_writer.hpp"

namespace py = pybind11;
using namespace nkisim::isa;

// libsystemc.so defines main and wants this symbol; a module never calls it.
extern "C" __attribute__((visibility("default"))) int sc_main(int, char*[]) { return 0; }

namespace {

constexpr std::size_t kMaxArgs = 32;

/// What Python registers once: its tensor and register types, operator tokens and error class.
struct Front {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* reg = nullptr;
  PyObject* alu = nullptr;  // dict: token -> code
  PyObject* act = nullptr;
  PyObject* engines = nullptr;  // dict: engine token -> code
  PyObject* error = nullptr;    // class
  PyObject* is_ours = nullptr;  // callable(code object) -> bool
  PyObject *st, *part, *off, *shape, *strides, *dtype, *dyn, *ref, *exact, *id, *space, *code,
      *pitch, *partition, *name;
};
Front front;

std::string text_of(PyObject* o) {
  py::object r = py::reinterpret_steal<py::object>(PyObject_Repr(o));
  if (!r) {
    PyErr_Clear();
    return "?";
  }
  std::string s = py::str(r);
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

/// Records one kernel: the program, the memory behind evaluation on demand, locations.
class Recorder {
 public:
  explicit Recorder(const Machine& machine) : program(*new Program(machine)) {
    trace.program.reset(&program);
    program.set_virtual_addresses(true);
  }

  Program& program;  // owned by the trace
  nkisim::TraceFile trace;
  std::unique_ptr<Memory> memory;
  std::vector<CoreState> states;
  std::size_t evaluated = 0;
  std::optional<SourceLoc> fixed_location;  // of a call that was held back

  SourceLoc location();
  const TensorRef* ref(PyObject* tensor, bool exact);
  Arg convert(const Param& param, PyObject* value, bool exact);
  void append(PyObject* const* args, Py_ssize_t count);
  Memory& live_memory() {
    if (memory == nullptr) memory = std::make_unique<Memory>(program);
    return *memory;
  }

 private:
  struct Code {
    std::uint32_t file = 0;
    bool ours = false;
    py::object keep;  // a code object must not be recycled while it is a key
    std::unordered_map<int, std::uint32_t> lines;
  };
  Code& code_of(PyCodeObject* code);
  void add_dims(PyObject* shape, PyObject* strides, bool on_chip, bool exact,
                std::vector<Dim>& dims);
  const DynamicOffset* dynamic(PyObject* entries);

  void infer_accumulate(const OpSpec& op, std::span<Arg> values);

  std::unordered_map<PyCodeObject*, Code> codes_;
  nkisim::python::PsumWrites psum_;
  std::vector<Dim> dims_;
};

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
  if (!attr(tensor, front.ref).is_none() && !PyLong_CheckExact(attr(tensor, front.ref).ptr())) {
    attr(tensor, front.ref).attr("complain")();
  }
  const py::object st = attr(tensor, front.st);
  const auto id = int_attr(st.ptr(), front.id);
  if (id < 0) throw py::value_error("a tensor is used before it is allocated");
  TensorRef r;
  r.tensor = static_cast<std::uint32_t>(id);
  r.space = static_cast<Space>(int_attr(st.ptr(), front.space));
  r.dtype = static_cast<Dtype>(int_attr(attr(tensor, front.dtype).ptr(), front.code));
  r.offset = int_attr(tensor, front.off);
  const py::object shape = attr(tensor, front.shape), strides = attr(tensor, front.strides);
  if (r.space != Space::kHbm) {
    const auto n = PyLong_AsLongLong(PyTuple_GET_ITEM(shape.ptr(), 0));
    const auto pitch = int_attr(st.ptr(), front.pitch) / size_bytes(r.dtype);
    if (n > 1 && PyLong_AsLongLong(PyTuple_GET_ITEM(strides.ptr(), 0)) != pitch) {
      fail(
          "a tensor with a step or broadcast along its partitions; consecutive partitions are "
          "required");
    }
    if (n > 0xffff) fail("a tensor on " + std::to_string(n) + " partitions; at most 128 exist");
    r.partition = static_cast<std::uint16_t>(int_attr(st.ptr(), front.partition) +
                                             int_attr(tensor, front.part));
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

[[noreturn]] void refuse(const Param& param, PyObject* value, const std::string& required) {
  fail(param.name, text_of(value), required);
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

Arg int_arg(Arg::Kind kind, std::int64_t v) {
  Arg a;
  a.kind = kind;
  a.integer = v;
  return a;
}

Arg number(const Param& param, PyObject* value) {
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

Arg token(const Param& param, PyObject* value, PyObject* codes, const char* required) {
  PyObject* hit = PyDict_GetItemWithError(codes, value);
  if (hit == nullptr) {
    PyErr_Clear();
    refuse(param, value, required);
  }
  return int_arg(Arg::Kind::kEnum, PyLong_AsLongLong(hit));
}

Arg choice(const Param& param, PyObject* value) {
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

void flatten(const Param& param, PyObject* value, IntList& out) {
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
    case ParamKind::kBool:
      return int_arg(Arg::Kind::kBool, PyObject_IsTrue(value) == 1 ? 1 : 0);
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

void raise(const Error& e) {
  static constexpr std::array<const char*, 3> kCodes = {"usage", "bad_input", "internal"};
  if (front.error == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
    return;
  }
  const SourceLoc& loc = e.loc();
  const py::object error =
      py::handle(front.error)(e.message(), kCodes[static_cast<std::size_t>(e.code())],
                              e.instruction(), loc.trace_line, e.kernel_file(), loc.kernel_line);
  PyErr_SetObject(front.error, error.ptr());
}

PyObject* append_entry(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  auto* recorder = static_cast<Recorder*>(PyCapsule_GetPointer(self, nullptr));
  try {
    recorder->append(args, count);
    Py_RETURN_NONE;
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const Error& e) {
    raise(e);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

PyMethodDef append_def = {"append",
                          reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(append_entry)),
                          METH_FASTCALL, nullptr};

InterpretOptions options_for(bool allow_unwritten, const py::object& print) {
  InterpretOptions options;
  options.unwritten = allow_unwritten ? Unwritten::kAllow : Unwritten::kError;
  if (!print.is_none()) {
    // A plain handle: the function is copied and destroyed without the interpreter's lock, and the
    // caller's argument keeps the object alive.
    options.print = [raw = print.ptr()](const std::string& line) {
      const py::gil_scoped_acquire gil;
      const py::handle callee{raw};
      callee(line);
    };
  }
  options.progress = [](std::uint64_t) {
    const py::gil_scoped_acquire gil;
    return PyErr_CheckSignals() == 0;
  };
  return options;
}

// First and last instruction that touches each tensor (-1: none), index tensors included, and
// whether any writes it.
std::vector<std::tuple<std::int64_t, std::int64_t, bool>> lifetimes(const Program& program) {
  std::vector<std::tuple<std::int64_t, std::int64_t, bool>> out(program.tensors().size(),
                                                                {-1, -1, false});
  std::int64_t at = 0;
  for (const Inst& inst : program.insts()) {
    for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool write) {
      auto& [first, last, written] = out[ref.tensor];
      if (first < 0) first = at;
      last = at;
      written |= write;
    });
    ++at;
  }
  return out;
}

py::dict simulate(Recorder& r, const std::string& config_name,
                  const std::vector<std::string>& overrides, bool timing_only, bool allow_unwritten,
                  const py::object& print) {
  const auto config = nkisim::load_config(config_name, overrides);
  const InterpretOptions services = options_for(allow_unwritten, print);
  nkisim::SimOptions options;
  options.timing_only = timing_only;
  options.unwritten = services.unwritten;
  options.print = services.print;
  options.progress = [&](std::uint64_t n, nkisim::models::Fs) { return services.progress(n); };
  Memory& memory = r.live_memory();
  nkisim::SimResult result;
  {
    const py::gil_scoped_release release;
    result = nkisim::simulate(r.program, config, &memory, options);
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  py::dict out;
  out["latency_ns"] = static_cast<double>(result.end) * 1e-6;
  out["instructions"] = result.instructions;
  return out;
}

// Writes the trace; the data of input `id` is array `keys[id]` of the .npz file beside it.
void save(Recorder& r, const std::string& path, const std::string& kernel,
          const std::string& archive, const std::map<std::uint32_t, std::string>& keys) {
  r.trace.name = kernel;
  r.trace.cores = r.program.cores();
  r.trace.data.assign(r.program.tensors().size(), {});
  for (const auto& [id, key] : keys) {
    nkisim::DataSource& source = r.trace.data[id];
    source.kind = nkisim::DataSource::Kind::kNpz;
    source.file = archive;
    source.key = key;
  }
  nkisim::write_trace(r.trace, path);
}

py::list describe_ops() {
  py::list all;
  for (const OpSpec* op : op_table()) {
    py::list params;
    for (const Param& p : op->params) {
      py::list choices;
      for (const std::string_view c : p.choices) choices.append(std::string(c));
      params.append(
          py::make_tuple(std::string(p.name), static_cast<int>(p.kind), p.optional, choices));
    }
    py::list engines;
    for (const EngineRule& rule : op->engines) engines.append(std::string(name(rule.engine)));
    all.append(py::make_tuple(std::string(op->name), static_cast<int>(op_id(*op)), params, engines,
                              std::string(op->doc)));
  }
  return all;
}

void register_front(const py::dict& what) {
  const auto take = [&](const char* key) { return py::object(what[key]).release().ptr(); };
  front.tensor = reinterpret_cast<PyTypeObject*>(take("tensor"));
  front.reg = reinterpret_cast<PyTypeObject*>(take("register"));
  front.alu = take("alu");
  front.act = take("act");
  front.engines = take("engines");
  front.error = take("error");
  front.is_ours = take("is_ours");
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

std::uint32_t add_tensor(Recorder& r, const std::string& tensor_name, int space, int dtype,
                         std::vector<std::int64_t> shape, int role, int core, int partition,
                         std::int64_t address) {
  Tensor t;
  t.name = tensor_name;
  t.space = static_cast<Space>(space);
  t.dtype = static_cast<Dtype>(dtype);
  t.role = static_cast<TensorRole>(role);
  t.core = static_cast<std::uint8_t>(core);
  t.shape = std::move(shape);
  t.partition = static_cast<std::uint16_t>(partition);
  t.address = address;
  const SourceLoc loc = r.location();
  t.file = loc.kernel_file;
  t.line = loc.kernel_line;
  try {
    return r.program.add_tensor(std::move(t));
  } catch (Error& e) {
    e.at("ndarray", loc);
    r.program.locate(e);
    throw;
  }
}

std::span<const std::byte> bytes_of(const py::buffer_info& info) {
  return {static_cast<const std::byte*>(info.ptr),
          static_cast<std::size_t>(info.size * info.itemsize)};
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  intern_names();
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Error& e) {
      raise(e);
    }
  });
  m.def("register", &register_front);
  m.def("ops", &describe_ops);
  m.def("alu", [](const std::string& s) {
    const auto v = parse_alu(s);
    return v ? static_cast<int>(*v) : -1;
  });
  m.def("act", [](const std::string& s) {
    const auto v = parse_act(s);
    return v ? static_cast<int>(*v) : -1;
  });
  m.def("machine", [](const std::string& target) -> py::object {
    const auto found = find_machine(target);
    if (!found) return py::none();
    py::dict d;
    d["generation"] = static_cast<int>(found->generation) + 2;
    d["sbuf_partition_bytes"] = found->sbuf_partition_bytes;
    d["psum_partition_bytes"] = found->psum_partition_bytes;
    d["psum_banks"] = found->psum_banks;
    d["matmul_moving_max"] = found->matmul_moving_max;
    return d;
  });

  py::class_<Recorder>(m, "Program")
      .def(py::init([](const std::string& target) {
        const auto machine = find_machine(target);
        if (!machine) fail("target", target, "trn1, inf2, trn2 or trn3");
        return std::make_unique<Recorder>(*machine);
      }))
      .def_property_readonly("append",
                             [](py::object self) {
                               auto* r = self.cast<Recorder*>();
                               const py::capsule capsule(r, [](void*) {});
                               return py::reinterpret_steal<py::object>(
                                   PyCFunction_New(&append_def, capsule.inc_ref().ptr()));
                             })
      .def("add_tensor", &add_tensor)
      .def("location",
           [](Recorder& r) {
             const SourceLoc loc = r.location();
             const auto& files = r.program.files();
             return py::make_tuple(loc.kernel_file > 0 ? files[loc.kernel_file - 1] : std::string(),
                                   loc.kernel_line);
           })
      .def("set_location",
           [](Recorder& r, const std::string& file, std::uint32_t line) {
             r.fixed_location.reset();
             if (!file.empty()) r.fixed_location = SourceLoc{0, r.program.add_file(file), line};
           })
      .def("tensor_location",
           [](Recorder& r, std::uint32_t id) {
             const Tensor& t = r.program.tensor(id);
             const auto& files = r.program.files();
             return py::make_tuple(t.file > 0 ? files[t.file - 1] : std::string(), t.line);
           })
      .def("set_address", [](Recorder& r, std::uint32_t id,
                             std::int64_t address) { r.program.set_address(id, address); })
      .def("set_role", [](Recorder& r, std::uint32_t id,
                          int role) { r.program.set_role(id, static_cast<TensorRole>(role)); })
      .def("place",  // addresses are final
           [](Recorder& r, bool over_capacity) {
             r.program.set_virtual_addresses(false);
             r.program.set_allow_over_capacity(over_capacity);
             r.memory.reset();
             r.states.clear();
             r.evaluated = 0;
           })
      .def("finish", [](Recorder& r) { r.program.finish(); })
      .def("lifetimes", [](Recorder& r) { return lifetimes(r.program); })
      .def("__len__", [](Recorder& r) { return r.program.insts().size(); })
      .def("load",
           [](Recorder& r, std::uint32_t id, const py::buffer& data) {
             r.live_memory().load(id, bytes_of(data.request()));
           })
      .def("read",
           [](Recorder& r, std::uint32_t id) {
             const auto bytes = r.live_memory().read(id);
             return py::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
           })
      .def("evaluate",  // everything recorded so far, where it was left last time
           [](Recorder& r, bool allow_unwritten, const py::object& print) {
             const auto options = options_for(allow_unwritten, print);
             const std::size_t last = r.program.insts().size();
             const std::size_t first = r.evaluated;
             r.evaluated = last;
             Memory& memory = r.live_memory();
             {
               const py::gil_scoped_release release;
               interpret_range(r.program, memory, r.states, first, last, options);
             }
             if (PyErr_Occurred() != nullptr) throw py::error_already_set();
           })
      .def("simulate", &simulate)
      .def("save", &save)
      .def("interpret", [](Recorder& r, bool allow_unwritten, const py::object& print) {
        const auto options = options_for(allow_unwritten, print);
        Memory& memory = r.live_memory();
        std::uint64_t count = 0;
        {
          const py::gil_scoped_release release;
          count = interpret(r.program, memory, options);
        }
        if (PyErr_Occurred() != nullptr) throw py::error_already_set();
        return count;
      });
}
