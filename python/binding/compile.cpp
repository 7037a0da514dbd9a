// Gives Python the compiler passes on a program, and the list of the compiler's switches.
#include "python/binding/compile.hpp"

#include <pybind11/stl.h>

#include <map>

#include "checks/groups.hpp"
#include "compiler/pipeline.hpp"
#include "python/binding/machine.hpp"
#include "src/run/run.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::python {
namespace {

using compiler::Switch;
using Choices = std::map<std::string, std::string>;

compiler::Chosen chosen(const Choices& given) {
  return [&given](const Switch& s) -> std::optional<std::string> {
    const auto found = given.find(std::string(s.name));
    return found == given.end() ? std::nullopt : std::optional(found->second);
  };
}

// name -> choices, the default first; flags are arguments of their own.
py::dict switches() {
  py::dict out;
  for (const Switch& s : compiler::switches()) {
    if (s.flag()) continue;
    py::list choices;
    for (const std::string_view c : s.choices) choices.append(std::string(c));
    out[py::str(std::string(s.name))] = py::tuple(choices);
  }
  return out;
}

// The switches by name: as given, else from the environment, else the default.
Choices options(const Choices& given) {
  std::string names;
  for (const Switch& s : compiler::switches()) {
    if (!s.flag()) names.append(names.empty() ? "" : ", ").append(s.name);
  }
  for (const auto& [name, value] : given) {
    if ((", " + names + ",").find(", " + name + ",") == std::string::npos) {
      throw Error(isa::Rule::compiler_switch,
                  "the compiler has no switch '" + name + "'; one of " + names + " is required");
    }
  }
  const compiler::CompilerOptions found = compiler::kernel_options(chosen(given));
  Choices out;
  for (const Switch& s : compiler::switches()) {
    if (!s.flag()) out.emplace(s.name, found.*s.value);
  }
  return out;
}

py::dict as_dict(const compiler::Compiled& done) {
  py::list steps, peaks;
  for (const auto& step : done.steps) {
    steps.append(py::make_tuple(std::string(step.pass), step.changed, step.text));
  }
  for (const compiler::MemoryPeak& p : done.peaks) {
    peaks.append(py::make_tuple(p.core, p.space == Space::kSbuf ? "SBUF" : "PSUM", p.bytes));
  }
  py::dict out;
  out["steps"] = steps;
  out["peaks"] = peaks;
  out["packed"] = done.packed;
  out["delay"] = done.delay.empty() ? py::object(py::none()) : py::str(std::string(done.delay));
  out["overflow"] = py::none();
  if (done.overflow) {
    out["overflow"] = py::make_tuple(done.overflow->message(), done.overflow->kernel_file(),
                                     done.overflow->loc().kernel_line);
  }
  return out;
}

// Keeps the program as it is now for write_recorded. `fixed`: tensors whose address is the kernel's
// own; `copies`: instructions whose readers may read their source (Inst::forward).
void keep(Recorder& r, bool legacy, const std::vector<std::uint32_t>& fixed,
          const std::vector<std::uint32_t>& copies) {
  for (const std::uint32_t id : fixed) r.program.fix_address(id);
  for (const std::uint32_t i : copies) r.program.mark_forward(i);
  r.end();
  r.trace.recorded = true;
  r.trace.legacy = legacy;
  r.recorded = r.program.version();
}

py::dict compile(Recorder& r, const Choices& given, bool legacy,
                 const std::vector<std::uint32_t>& fixed, const std::vector<std::uint32_t>& copies,
                 const std::string& config_name, const std::vector<std::string>& overrides,
                 bool values) {
  keep(r, legacy, fixed, copies);
  std::vector<checks::Remark> odd = checks::group_remarks(r.program, false);
  const auto add = [&odd](std::vector<checks::Remark> more) {
    for (checks::Remark& remark : more) odd.push_back(std::move(remark));
  };
  if (values || r.policy.asks_for_lost()) {
    add(checks::lost_remarks(r.program, r.policy.looks_for_unread()));
  }
  add(checks::written_remarks(r.program));
  r.remarks = checks::located(r.program, odd);
  const compiler::CompilerOptions options = compiler::kernel_options(chosen(given));
  r.used = options;
  std::shared_ptr<const models::Config> config;
  compiler::Compiled done;
  {
    const py::gil_scoped_release release;
    done = nkisim::compile_trace(r.trace, options, true, [&]() -> const models::Config& {
      if (!config) config = machine_description(config_name, overrides);
      return *config;
    });
  }
  r.origin = nkisim::origin_of(r.trace, done);
  return as_dict(done);
}

}  // namespace

void bind_options(py::module_& m) {
  m.def("compiler_switches", &switches);
  m.def("compiler_options", &options);
}

void bind_compile(py::class_<Recorder>& program) {
  program.def("keep", &keep).def("compile", &compile);
}

void write_recorded(Recorder& r, const std::string& path) {
  if (!r.recorded) throw py::value_error("the program has not been kept or compiled");
  const auto exchange = [&r](bool open) {
    r.program.exchange(*r.recorded);
    r.trace.open = open;
  };
  exchange(true);
  try {
    nkisim::write_trace(r.trace, path);
  } catch (...) {
    exchange(false);
    throw;
  }
  exchange(false);
}

}  // namespace nkisim::python
