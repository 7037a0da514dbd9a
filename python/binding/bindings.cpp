// The extension module nkisim._core: builds a Program from recorded calls, evaluates it, runs it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <sstream>

#include "compiler/analysis/lifetimes.hpp"
#include "isa/act.hpp"
#include "isa/alu.hpp"
#include "isa/interpreter.hpp"
#include "python/binding/compile.hpp"
#include "python/binding/recorder.hpp"
#include "src/config/config.hpp"
#include "src/report/report.hpp"
#include "src/run/run.hpp"
#include "src/trace/trace.hpp"

using namespace nkisim::python;

// libsystemc.so wants this symbol; a module never calls it.
extern "C" __attribute__((visibility("default"))) int sc_main(int, char*[]) { return 0; }

namespace {

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

InterpretOptions options_for(const Recorder& r, bool allow_unwritten, const py::object& print) {
  InterpretOptions options;
  options.stochastic_rounding = r.stochastic_rounding;
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

// Goes on with what is recorded so far, until `core` of `cores` has done all of it: false if it
// waits for another core, whose program is not `complete`.
bool evaluate(Recorder& r, int core, int cores, bool complete) {
  Memory& memory = r.live_memory();
  if (r.evaluation == nullptr) {  // what device_print says belongs to the run
    r.evaluation =
        std::make_unique<Evaluation>(r.program, memory, cores, options_for(r, true, py::none()));
  }
  bool done = false;
  {
    const py::gil_scoped_release release;
    done = r.evaluation->advance(core, complete);
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return done;
}

// First and last instruction that touches each tensor (-1: none), index tensors included, and
// whether any writes it.
std::vector<std::tuple<std::int64_t, std::int64_t, bool>> lifetimes(const Recorder& r) {
  std::vector<std::tuple<std::int64_t, std::int64_t, bool>> out;
  for (const auto& life : nkisim::compiler::lifetimes_of(r.program)) {
    out.emplace_back(life.first, life.last, life.written);
  }
  return out;
}

nkisim::ReportFiles report_files(const py::dict& files) {
  const auto text = [&](const char* key) {
    return files.contains(key) ? files[key].cast<std::string>() : std::string();
  };
  return {.accounting_json = text("accounting_json"),
          .session = text("session"),
          .perfetto = text("perfetto"),
          .chrome = text("chrome"),
          .flows = false,
          .accounting = files.contains("explain"),
          .events = false};
}

using Inputs = std::map<std::uint32_t, std::vector<std::byte>>;

// The bytes a run starts from, to run again.
Inputs copy_inputs(Recorder& r) {
  Inputs inputs;
  std::uint32_t id = 0;
  for (const Tensor& t : r.program.tensors()) {
    using enum TensorRole;
    if (t.role == kInput || t.role == kInputOutput || t.role == kConstant) {
      inputs[id] = r.live_memory().read(id);
    }
    ++id;
  }
  return inputs;
}

// Ctrl-C stops the run; with keep_partial what is done so far is the result, else
// KeyboardInterrupt is raised.
bool interrupted(bool keep_partial) {
  if (PyErr_Occurred() == nullptr) return false;
  if (!keep_partial || PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) == 0) {
    throw py::error_already_set();
  }
  PyErr_Clear();
  return true;
}

// `files` has the names of reports to write (accounting_json, session, perfetto, chrome), and
// "explain" if their text is wanted as well.
py::dict simulate(Recorder& r, const std::string& config_name,
                  const std::vector<std::string>& overrides, const py::dict& files,
                  bool allow_unwritten, const py::object& print, bool keep_partial,
                  bool timing_only) {
  const auto config = nkisim::load_config(config_name, overrides);
  const InterpretOptions services = options_for(r, allow_unwritten, print);
  const bool explain = files.contains("explain");
  nkisim::SimOptions options;
  nkisim::Summary summary;
  nkisim::Reports reports(report_files(files));
  options.observers.push_back(&summary);
  reports.observe(options.observers);
  options.timing_only = timing_only;
  options.unwritten = services.unwritten;
  options.print = services.print;
  options.stochastic_rounding = services.stochastic_rounding;
  options.progress = [&](std::uint64_t n, nkisim::models::Fs) { return services.progress(n); };
  Memory& memory = r.live_memory();
  const std::string session = report_files(files).session;
  const Inputs inputs = explain ? copy_inputs(r) : Inputs();
  const auto fresh = [&] {
    auto copy = std::make_unique<Memory>(r.program);
    for (const auto& [id, bytes] : inputs) copy->load(id, bytes);
    return copy;
  };
  nkisim::SimResult result;
  std::vector<nkisim::WhatIf> changes;
  {
    const py::gil_scoped_release release;
    result = nkisim::simulate(r.program, config, &memory, options);
  }
  interrupted(keep_partial);
  {
    const py::gil_scoped_release release;
    reports.write_files();
    if (explain && !result.partial) {
      changes = nkisim::what_if(r.program, config, result.end, fresh,
                                [&](int, int) { return services.progress(0); });
    }
    if (!session.empty()) reports.write_session(session, summary, result, changes);
  }
  interrupted(keep_partial);
  py::dict out;
  out["latency_ns"] = static_cast<double>(result.end) * 1e-6;
  out["instructions"] = result.instructions;
  out["partial"] = result.partial;
  out["json"] = summary.json().dump();
  std::ostringstream text;
  summary.print(text);
  out["text"] = text.str();
  if (explain) {
    std::ostringstream said;
    nkisim::print_explanation(said, *reports.accounting(), changes);
    out["explanation"] = said.str();
  }
  return out;
}

// Checks limits against a summary in JSON: (text, kept, message) each.
std::vector<std::tuple<std::string, bool, std::string>> check_budgets(
    const std::vector<std::string>& texts, const std::string& summary) {
  const auto metrics = nlohmann::ordered_json::parse(summary);
  std::vector<std::tuple<std::string, bool, std::string>> rows;
  for (const std::string& text : texts) {
    const nkisim::BudgetResult result = nkisim::check_budget(nkisim::parse_budget(text), metrics);
    rows.emplace_back(text, result.kept, result.message);
  }
  return rows;
}

std::string junit_xml(const std::string& suite,
                      const std::vector<std::tuple<std::string, bool, std::string>>& rows,
                      double seconds) {
  std::vector<nkisim::TestCase> cases;
  for (const auto& [name, passed, message] : rows) cases.push_back({name, passed, message});
  return nkisim::junit_xml(suite, cases, seconds);
}

std::string error_kind(const std::string& message) {
  const nkisim::ErrorEntry* entry = nkisim::find_error(message);
  return entry == nullptr ? "operand" : std::string(entry->kind);
}

// Writes the trace, as compiled or as recorded; the data of input `id` is array `keys[id]` of the
// .npz file beside it.
void save(Recorder& r, const std::string& path, const std::string& kernel,
          const std::string& archive, const std::map<std::uint32_t, std::string>& keys,
          bool compiled) {
  r.trace.name = kernel;
  r.trace.cores = r.program.cores();
  r.trace.data.assign(r.program.tensors().size(), {});
  for (const auto& [id, key] : keys) {
    nkisim::DataSource& source = r.trace.data[id];
    source.kind = nkisim::DataSource::Kind::kNpz;
    source.file = archive;
    source.key = key;
  }
  if (compiled) {
    nkisim::write_trace(r.trace, path);
  } else {
    write_recorded(r, path);
  }
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

// The tensor's number, and the name it is given: `wanted`, or with a number if that is taken.
std::pair<std::uint32_t, std::string> add_tensor(Recorder& r, const std::string& wanted, int space,
                                                 int dtype, std::vector<std::int64_t> shape,
                                                 int role, int core, int partition,
                                                 std::int64_t address) {
  std::string free = r.free_name(wanted);
  Tensor t;
  t.name = free;
  t.space = static_cast<Space>(space);
  t.dtype = static_cast<Dtype>(dtype);
  t.role = static_cast<TensorRole>(role);
  t.core = static_cast<std::uint8_t>(core);
  t.shape = std::move(shape);
  t.partition = static_cast<std::uint16_t>(partition);
  t.address = address;
  t.born = static_cast<std::uint32_t>(r.program.insts().size());
  const SourceLoc loc = r.location();
  t.file = loc.kernel_file;
  t.line = loc.kernel_line;
  try {
    return {r.program.add_tensor(std::move(t)), std::move(free)};
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
  bind_options(m);
  m.def("check_budgets", &check_budgets);
  m.def("junit_xml", &junit_xml);
  m.def("error_kind", &error_kind);
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

  py::class_<Recorder> program(m, "Program");
  bind_compile(program);
  program
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
      .def("set_role", [](Recorder& r, std::uint32_t id,
                          int role) { r.program.set_role(id, static_cast<TensorRole>(role)); })
      .def("restart",  // forgets all values
           [](Recorder& r) {
             r.evaluation.reset();
             r.memory.reset();
           })
      .def("finish", [](Recorder& r) { r.program.finish(); })
      .def("lifetimes", &lifetimes)
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
      .def("evaluate", &evaluate)
      .def_readwrite("stochastic_rounding", &Recorder::stochastic_rounding)
      .def("simulate", &simulate)
      .def("save", &save)
      .def("interpret", [](Recorder& r, bool allow_unwritten, const py::object& print) {
        const auto options = options_for(r, allow_unwritten, print);
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
