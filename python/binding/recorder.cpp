// Converts the Python arguments of nki.isa calls, and adds the instructions to the program.

#include "python/binding/recorder.hpp"

#include "isa/program/check.hpp"
#include "python/binding/front.hpp"
#include "python/binding/values.hpp"
#include "python/binding/view.hpp"

namespace nkisim::python {

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

namespace {

// As a trace can hold it (docs/trace-format.md): a kernel may call its tensors "38" or "a b".
std::string tidy_name(std::string name) {
  constexpr std::size_t kLongest = 200;  // with space for numbers behind it
  if (name.size() > kLongest) name.resize(kLongest);
  for (char& c : name) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f' || c == '[' || c == ']' || c == '"' ||
        c == '\\') {
      c = '_';
    }
  }
  constexpr std::string_view kNumbers = "0123456789+-.$";
  const bool number = name.empty() || kNumbers.find(name.front()) != std::string_view::npos ||
                      name == "inf" || name == "nan";
  return number ? "t" + name : name;
}

// True if an index tensor selects the rows of a view with these run-time parts.
bool selects_rows(PyObject* entries) {
  const auto all = py::reinterpret_borrow<py::tuple>(entries);
  return std::any_of(all.begin(), all.end(), [](const py::handle entry) {
    return py::str(py::tuple(py::reinterpret_borrow<py::object>(entry))[0]).cast<std::string>() ==
           "vector";
  });
}

}  // namespace

// `given`, or the first of given.1, given.2, ... that no tensor has.
std::string Recorder::free_name(const std::string& given) {
  const std::string wanted = tidy_name(given);
  auto known = numbered_.find(wanted);
  if (known == numbered_.end()) {
    if (program.find_tensor(wanted) == nullptr) return wanted;
    known = numbered_.emplace(wanted, 0).first;
  }
  std::uint32_t& number = known->second;
  std::string name;
  do {
    name = wanted + "." + std::to_string(++number);
  } while (program.find_tensor(name) != nullptr);
  return name;
}

// The innermost frame outside the front end.
SourceLoc Recorder::location() {
  if (fixed_location_) return *fixed_location_;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    Code& entry = code_of(code);
    Py_DECREF(code);
    if (!entry.ours) {
#if PY_VERSION_HEX >= 0x030B0000
      const auto at = static_cast<std::size_t>(PyFrame_GetLasti(frame));
      if (at >= entry.lines.size()) entry.lines.resize(at + 1);
      std::uint32_t& line = entry.lines[at];
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

py::object Recorder::place() {
  const SourceLoc loc = location();
  py::object& known = places_[std::uint64_t{loc.kernel_file} << 32U | loc.kernel_line];
  if (!known) {
    const std::uint32_t file = loc.kernel_file;
    known = py::make_tuple(file > 0 ? program.files()[file - 1] : std::string(), loc.kernel_line);
    located_.emplace(known.ptr(), loc);
  }
  return known;
}

void Recorder::at(PyObject* place) {
  fixed_location_.reset();
  if (place == Py_None) return;
  const auto known = located_.find(place);
  if (known == located_.end()) throw py::value_error("a place of this recording is required");
  if (known->second.kernel_file != 0) fixed_location_ = known->second;
}

// Dimensions of size 1 are dropped and adjacent ones merged where the pattern stays the same, so
// that deep views fit the hardware's dimensions. `exact` keeps them (ops that look at dimensions).
void Recorder::add_dims(PyObject* shape, PyObject* strides, bool on_chip, bool exact) {
  std::vector<Dim>& dims = dims_;
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

// The operand for `tensor`, checked for views that no operand can express.
TensorRef Recorder::operand(PyObject* tensor, bool exact) {
  const View& view = view_of(tensor);
  const std::int64_t id = front.storage_id.integer_of(view.st);
  if (id < 0) throw py::value_error("a tensor is used before it is allocated");
  const Tensor& owner = program.tensor(static_cast<std::uint32_t>(id));
  TensorRef r;
  r.tensor = static_cast<std::uint32_t>(id);
  r.space = owner.space;
  r.dtype = static_cast<Dtype>(view.code >= 0 ? view.code : front.code.integer_of(view.dtype));
  r.offset = view.off;
  PyObject *shape = view.shape, *strides = view.strides;
  if (r.space != Space::kHbm) {
    const auto n = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, 0));
    const auto pitch = owner.extent_bytes() / size_bytes(r.dtype);
    if (n > 1 && PyLong_AsLongLong(PyTuple_GET_ITEM(strides, 0)) != pitch) {
      fail(isa::Rule::partition_step,
           "a tensor with a step or broadcast along its partitions; consecutive partitions are "
           "required");
    }
    if (n > 0xffff)
      fail(isa::Rule::partition_count,
           "a tensor on " + std::to_string(n) + " partitions; at most 128 exist");
    r.partition = static_cast<std::uint16_t>(owner.partition + view.part);
    r.partitions = static_cast<std::uint16_t>(n);
  }
  add_dims(shape, strides, r.on_chip(), exact);
  if (view.dyn != Py_None && !r.on_chip() && dims_.size() == 1 && selects_rows(view.dyn)) {
    dims_.push_back({1, 1});  // rows of one element
  }
  r.pattern = program.intern(dims_);
  if (view.dyn != Py_None) r.dynamic = dynamic(view.dyn);
  return r;
}

// Refuses a tensor that a kernel has kept from an earlier call: it is none of this program.
static void refuse_foreign(PyObject* storage) {
  fail(isa::Rule::outside_kernel, "tensor " +
                                      std::string(py::str(py::handle(storage).attr("name"))) +
                                      " is of another call of a kernel, and lasts as long as that; "
                                      "one of this call is required");
}

const TensorRef* Recorder::ref(PyObject* tensor, bool exact) {
  View& view = view_of(tensor);
  if (own_reference && !front.storage_recorder.of(view.st).is(own_reference))
    refuse_foreign(view.st);
  const TensorRef*& made = exact ? view.exact : view.ref;
  if (made != nullptr) return made;
  if (view.held != Py_None) py::handle(view.held).attr("complain")();
  return made = program.add_ref(operand(tensor, exact));
}

// By the kernel's own shape: the operand's pattern may have fewer dimensions.
void Recorder::check_rank(const Param& param, PyObject* value) const {
  const Py_ssize_t dims = PyTuple_GET_SIZE(view_of(value).shape);
  if (dims > 0 && isa::too_deep(param, static_cast<std::size_t>(dims - 1), program)) {
    isa::fail_rank(param, text_of(value));
  }
}

Arg Recorder::tensor_arg(const Param& param, PyObject* value, bool exact) {
  if (!is_tensor(value)) {
    const bool number = PyFloat_Check(value) || PyLong_Check(value);
    refuse(param, value,
           number
               ? "a tensor (nisa.memset fills one with a number, nisa.tensor_scalar takes numbers)"
               : "a tensor");
  }
  if (param.free_dims != 0 && limits_ranks) check_rank(param, value);
  Arg a;
  a.kind = Arg::Kind::kTensor;
  a.tensor = ref(value, exact);
  return a;
}

Arg Recorder::tensor_list(const Param& param, PyObject* value, bool exact) {
  if (!PyList_Check(value) && !PyTuple_Check(value)) refuse(param, value, "a list of tensors");
  RefList list;
  for (const py::handle item : py::reinterpret_borrow<py::sequence>(value)) {
    list.push_back(tensor_arg(param, item.ptr(), exact).tensor);
  }
  Arg a;
  a.kind = Arg::Kind::kTensors;
  a.tensors = program.add_refs(std::move(list));
  return a;
}

Arg Recorder::text_arg(PyObject* value) {
  Arg a;
  a.kind = Arg::Kind::kText;
  a.text = program.add_text(std::string(py::str(py::handle(value))));
  return a;
}

Arg Recorder::list_arg(const Param& param, PyObject* value) {
  Arg a;
  a.kind = Arg::Kind::kList;
  a.list = program.add_list(int_list(param, value));
  return a;
}

Arg Recorder::groups_arg(const Param& param, PyObject* value) {
  IntList list;
  if (!PyList_Check(value) && !PyTuple_Check(value)) refuse(param, value, "lists of ranks");
  for (const py::handle group : py::reinterpret_borrow<py::sequence>(value)) {
    for (const std::int64_t member : int_list(param, group.ptr())) {
      if (member < 0) refuse(param, value, "ranks of 0 or more");
      list.push_back(member);
    }
    list.push_back(kGroupEnd);
  }
  Arg a;
  a.kind = Arg::Kind::kList;
  a.list = program.add_list(std::move(list));
  return a;
}

static Arg register_arg(PyObject* value) {
  return int_arg(Arg::Kind::kRegister, front.register_id.integer_of(value));
}

Arg Recorder::convert(const Param& param, PyObject* value, bool exact) {
  if (value == Py_None) return {};
  switch (param.kind) {
    case ParamKind::kIn:
    case ParamKind::kOut:
    case ParamKind::kInOut:
      return tensor_arg(param, value, exact);
    case ParamKind::kInList:
    case ParamKind::kOutList:
      return tensor_list(param, value, exact);
    case ParamKind::kScalarOrTensor:
      return is_tensor(value) ? tensor_arg(param, value, exact) : number(param, value);
    case ParamKind::kReal:
      return number(param, value);
    case ParamKind::kInt:
      return int_arg(Arg::Kind::kInt, to_int(param, value));
    case ParamKind::kIntOrRegister:
      if (is_register(value)) return register_arg(value);
      return int_arg(Arg::Kind::kInt, to_int(param, value));
    case ParamKind::kRegister:
      if (!is_register(value)) refuse(param, value, "a register");
      return register_arg(value);
    case ParamKind::kBool:
      return truth(param, value);
    case ParamKind::kAlu:
      return alu_arg(param, value, other_operators);
    case ParamKind::kAct:
      return act_arg(param, value, other_operators);
    case ParamKind::kDtype:
      return int_arg(Arg::Kind::kInt, front.code.integer_of(value));
    case ParamKind::kEnum: {
      const Arg chosen = choice(param, value);
      note_raw(param.name, value);
      return chosen;
    }
    case ParamKind::kIntList:
      return list_arg(param, value);
    case ParamKind::kGroups:
      return groups_arg(param, value);
    case ParamKind::kOpcode:
      return int_arg(
          Arg::Kind::kInt,
          static_cast<std::int64_t>(program.add_opcode(std::string(py::str(py::handle(value))))));
    case ParamKind::kText:
      return text_arg(value);
  }
  return {};
}

namespace {

// The parameters of an op that decide what a write to PSUM means; -1: it has none.
struct PsumParams {
  int accumulate = -1;
  int value = -1;  // of what fills
};

const PsumParams& psum_params(Op op) {
  static const auto kTable = [] {
    std::array<PsumParams, kOpCount> table;
    for (const OpSpec* each : op_table()) {
      PsumParams& row = table.at(static_cast<std::size_t>(op_id(*each)));
      row.accumulate = param_index(*each, "accumulate");
      if (each->fills) row.value = param_index(*each, "value");
    }
    return table;
  }();
  return kTable[static_cast<std::size_t>(op)];
}

}  // namespace

// PSUM: a matmul that leaves `accumulate` open overwrites bytes unwritten since allocation (or
// since a memset to zero) and adds to the rest.
void Recorder::infer_accumulate(const Inst& inst, std::span<Arg> values) {
  const OpSpec& op = spec(inst);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Param& param = op.params[i];
    const Arg& arg = values[i];
    if (arg.kind != Arg::Kind::kTensor || arg.tensor->space != Space::kPsum) continue;
    if (param.kind != ParamKind::kOut && param.kind != ParamKind::kInOut) continue;
    const auto [open, value] = psum_params(inst.op);
    if (open >= 0 && !values[static_cast<std::size_t>(open)].present()) {
      values[static_cast<std::size_t>(open)] =
          int_arg(Arg::Kind::kBool, psum_.any(program, *arg.tensor) ? 1 : 0);
    }
    const bool zero = value >= 0 && values[static_cast<std::size_t>(value)].integer == 0;
    psum_.mark(program, *arg.tensor, !zero);
  }
}

// Reports a text or an integer that stands in the place of an enumerator.
void Recorder::note_raw(std::string_view parameter, PyObject* value) const {
  const bool raw = PyUnicode_Check(value) || (PyIndex_Check(value) && !is_choice(value));
  if (raw) py::handle(front.raw_enum)(parameter, py::handle(value));
}

static Engine engine_of(PyObject* value) {
  PyObject* engine = PyDict_GetItemWithError(front.engines, value);
  if (engine == nullptr) {
    PyErr_Clear();
    fail(isa::Rule::unknown_engine, "engine", text_of(value),
         "one of nki.isa.engine (tensor, vector, scalar, gpsimd, sync)");
  }
  return static_cast<Engine>(PyLong_AsLong(engine));
}

void Recorder::append(const Call& call) {
  Inst inst;
  inst.op = static_cast<Op>(PyLong_AsLong(call.op));
  if (static_cast<int>(inst.op) >= kOpCount) throw py::index_error("unknown op");
  const OpSpec& op = spec(inst.op);
  inst.core = static_cast<std::uint8_t>(PyLong_AsLong(call.core));
  inst.loc = location();
  std::array<Arg, kMaxArgs> store;
  if (call.values.size() != op.params.size()) {
    throw py::type_error("wrong number of arguments for the op");
  }
  const std::span<Arg> values(store.data(), call.values.size());
  try {
    if (call.engine != Py_None) {
      inst.engine = engine_of(call.engine);
      note_raw("engine", call.engine);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = convert(op.params[i], call.values[i], call.exact);
    }
  } catch (Error& e) {
    e.at(op.name, inst.loc);
    program.locate(e);
    throw;
  }
  infer_accumulate(inst, values);
  if (call.label != Py_None && PyObject_IsTrue(call.label) == 1) {
    inst.label = program.add_text(std::string(py::str(call.label)));
  }
  inst.region = region_;
  program.append(inst, values);
  if (!kept_.empty()) chain();
}

void Recorder::keep_order(int core, bool on) {
  if (on) {
    kept_.try_emplace(core);
  } else {
    kept_.erase(core);
  }
}

// Orders the last instruction after the one before it. Sequencers run theirs in program order
// anyway.
void Recorder::chain() {
  const Inst& inst = program.insts().back();
  const auto kept = kept_.find(inst.core);
  const OpSpec& op = spec(inst);
  if (kept == kept_.end() || op.on_sequencer || op.control != OpSpec::Control::kNone) return;
  const std::size_t number = program.insts().size() - 1;
  if (kept->second) program.order_after(number, *kept->second);
  kept->second = number;
}

// add_tensor(name, space, dtype, shape, role, core, partition, address)
std::pair<std::uint32_t, std::string> Recorder::add_tensor(PyObject* const* args,
                                                           Py_ssize_t count) {
  if (count != 8) throw py::type_error("add_tensor takes eight arguments");
  if (!PyUnicode_Check(args[0])) throw py::type_error("name must be a str");
  const auto integer = [](PyObject* o) {
    const std::int64_t n = PyLong_AsLongLong(o);
    if (n == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    return n;
  };
  const char* tensor_name = PyUnicode_AsUTF8(args[0]);
  if (tensor_name == nullptr) throw py::error_already_set();
  std::string name = free_name(tensor_name);
  Tensor t;
  t.name = name;
  t.space = static_cast<Space>(integer(args[1]));
  t.dtype = static_cast<Dtype>(integer(args[2]));
  for (const py::handle size : py::reinterpret_borrow<py::sequence>(args[3])) {
    t.shape.push_back(integer(size.ptr()));
  }
  t.role = static_cast<TensorRole>(integer(args[4]));
  t.core = static_cast<std::uint8_t>(integer(args[5]));
  t.partition = static_cast<std::uint16_t>(integer(args[6]));
  t.address = integer(args[7]);
  t.born = static_cast<std::uint32_t>(program.insts().size());
  const SourceLoc loc = location();
  t.file = loc.kernel_file;
  t.line = loc.kernel_line;
  try {
    return {program.add_tensor(std::move(t)), std::move(name)};
  } catch (Error& e) {
    e.at("ndarray", loc);
    program.locate(e);
    throw;
  }
}

}  // namespace nkisim::python
