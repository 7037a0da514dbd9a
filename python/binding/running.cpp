// Gives Python the methods of Program that evaluate it, run it without timing, and simulate it.
#include "python/binding/running.hpp"

#include <pybind11/stl.h>

#include <map>
#include <new>
#include <sstream>
#include <tuple>

#include "checks/races.hpp"
#include "checks/statics.hpp"
#include "compiler/analysis/loops.hpp"
#include "isa/host/memory_bound.hpp"
#include "isa/program/uses.hpp"
#include "python/binding/bind.hpp"
#include "python/binding/figures.hpp"
#include "python/binding/machine.hpp"
#include "src/report/report.hpp"

namespace nkisim::python {

// `warn`: False: nothing is tracked, and unwritten bytes are zeros; else it is called with the
// text, the rule, the kernel's file and the line of each warning.
InterpretOptions options_for(const Recorder& r, const py::object& warn, const py::object& print) {
  InterpretOptions options;
  options.conditions.stochastic_rounding = r.stochastic_rounding;
  options.rank = r.rank;
  options.world.ranks = r.program.ranks();
  options.conditions.rules = r.policy;
  const bool untracked = warn.is(py::bool_(false));
  options.conditions.unwritten = untracked ? Unwritten::kAllow : Unwritten::kError;
  if (!untracked) {
    options.conditions.warn = [raw = warn.ptr()](const Error& warning) {
      const py::gil_scoped_acquire gil;
      const py::handle callee{raw};
      callee(isa::warning_text(warning), std::string(isa::info(warning.rule()).id),
             warning.kernel_file(), warning.loc().kernel_line);
    };
  }
  if (!print.is_none()) {
    // A plain handle: the function is copied and destroyed without the interpreter's lock, and the
    // caller's argument keeps the object alive.
    options.conditions.print = [raw = print.ptr()](const std::string& line) {
      const py::gil_scoped_acquire gil;
      const py::handle callee{raw};
      callee(line);
    };
  }
  options.progress = [](std::uint64_t) {
    if (isa::host::memory_bound_reached()) throw std::bad_alloc();
    const py::gil_scoped_acquire gil;
    return PyErr_CheckSignals() == 0;
  };
  return options;
}

nkisim::RankInputs rank_inputs(Recorder& r, Memory* memory, const InterpretOptions& services,
                               const py::dict& files, const RunChoices& choices) {
  nkisim::RankInputs rank{.input = {.program = &r.program, .memory = memory},
                          .reports = report_files(files),
                          .origin = r.origin};
  nkisim::models::RunOptions& options = rank.input.options;
  options.conditions = services.conditions;
  options.world = services.world;
  options.timed = choices.timed;
  options.fold = choices.fold;
  options.progress = [ask = services.progress](std::uint64_t n, nkisim::models::Fs) {
    return ask(n);
  };
  return rank;
}

nkisim::ReportFiles report_files(const py::dict& files) {
  const auto text = [&](const char* key) {
    return files.contains(key) ? files[key].cast<std::string>() : std::string();
  };
  return {.accounting_json = text("accounting_json"),
          .session = text("session"),
          .perfetto = text("perfetto"),
          .chrome = text("chrome"),
          .vcd = text("vcd"),
          .flows = false,
          .accounting = files.contains("explain"),
          .events = false,
          .sources = {.own_kernel = true}};
}

namespace {

// Ctrl-C stops the run; with keep_partial what is done so far is the result, else
// KeyboardInterrupt is raised.
void interrupted(bool keep_partial) {
  if (PyErr_Occurred() == nullptr) return;
  if (!keep_partial || PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) == 0) {
    throw py::error_already_set();
  }
  PyErr_Clear();
}

}  // namespace

py::dict counts_of(const nkisim::Execution& done, const nkisim::RunArtifacts& artifacts,
                   std::size_t rank, bool timed) {
  const nkisim::SimResult& result = done.result().ranks[rank];
  py::dict out;
  out["instructions"] = result.instructions;
  out["partial"] = result.partial;
  if (!timed) return out;
  const nkisim::Summary& summary = artifacts.ranks[rank].summary;
  const nkisim::Interval span = summary.span();
  out["latency_ns"] = nkisim::in_seconds(nkisim::latency(summary)) * 1e9;
  out["span"] = std::pair(span.start, span.end);
  return out;
}

std::span<const std::byte> bytes_of(const py::buffer_info& info) {
  return {static_cast<const std::byte*>(info.ptr),
          static_cast<std::size_t>(info.size * info.itemsize)};
}

void execute(nkisim::Execution& execution, const nkisim::RunCallbacks& callbacks,
             bool keep_partial) {
  {
    const py::gil_scoped_release release;
    execution.run();
  }
  interrupted(keep_partial);
  {
    const py::gil_scoped_release release;
    execution.report(callbacks);
  }
  interrupted(keep_partial);
}

void execute(nkisim::Execution& execution, const nkisim::RunCallbacks& callbacks, bool keep_partial,
             const nkisim::FreshMemories& fresh, const py::dict& chosen) {
  try {
    execute(execution, callbacks, keep_partial);
  } catch (const Error&) {
    try {
      chosen["stop"] = stop_of(execution, fresh);
    } catch (const Error&) {
      // it did not come that far: the run's own error says more
    }
    throw;
  }
}

RunChoices run_choices_of(const py::dict& given) {
  const auto chosen = [&](const char* key) {
    return given.contains(key) && given[key].cast<bool>();
  };
  return {.timed = chosen("timed"),
          .timing_only = chosen("timing_only"),
          .fold = chosen("fold"),
          .keep_partial = chosen("keep_partial"),
          .full_confidence = chosen("full_confidence"),
          .stop = {.at = given.contains("stop_at") ? given["stop_at"].cast<std::string>() : "",
                   .dump = given.contains("dump") ? given["dump"].cast<std::vector<std::string>>()
                                                  : std::vector<std::string>()}};
}

Inputs share_inputs(const Program& program, Memory& memory) {
  Inputs inputs;
  std::uint32_t id = 0;
  for (const Tensor& t : program.tensors()) {
    using enum TensorRole;
    if (t.role == kInput || t.role == kInputOutput || t.role == kConstant) {
      const Region& region = memory.hbm(id);
      const auto size = static_cast<std::size_t>(region.size());
      auto& shared = inputs[id];
      shared = std::make_unique<SharedBytes>(std::span(region.data(), size));
      memory.load(id, *shared);
    }
    ++id;
  }
  return inputs;
}

std::unique_ptr<Memory> memory_with(const Program& program, const Inputs& inputs) {
  auto memory = std::make_unique<Memory>(program);
  for (const auto& [id, bytes] : inputs) memory->load(id, *bytes);
  return memory;
}

py::object stop_of(const nkisim::Execution& done, const nkisim::FreshMemories& fresh) {
  std::optional<nkisim::Stop> stop;
  {
    const py::gil_scoped_release release;
    stop = done.stop(fresh);
  }
  if (!stop) return py::none();
  const auto bytes = [](const auto& all) {
    return py::bytes(reinterpret_cast<const char*>(all.data()), all.size());
  };
  const nlohmann::ordered_json json = nkisim::to_json(*stop);
  py::list ranks, texts;
  for (std::size_t r = 0; r < stop->ranks.size(); ++r) texts.append(nkisim::stop_text(json, r));
  for (const auto& values : stop->values) {
    py::dict own;
    for (const nkisim::StopValue& v : values) {
      own[py::str(v.name)] =
          py::make_tuple(std::string(name(v.dtype)), v.shape, bytes(v.bytes), bytes(v.valid));
    }
    ranks.append(own);
  }
  return py::make_tuple(json.dump(), texts, ranks);
}

namespace {

// (Instruction, tensor) of the last use of each; -1 for what a loop uses, whose body runs again.
std::vector<std::pair<std::int64_t, std::uint32_t>> last_uses(
    const Program& program, const std::vector<std::uint32_t>& tensors) {
  const Uses uses(program);
  const auto loops = nkisim::compiler::loops_of(program);
  std::vector<std::pair<std::int64_t, std::uint32_t>> out;
  for (const std::uint32_t id : tensors) {
    std::int64_t last = uses.any(id) ? std::int64_t{uses.last(id)} : -1;
    for (const auto& loop : loops) {
      if (loop.begin <= last && last <= loop.end) last = -1;
    }
    out.emplace_back(last, id);
  }
  return out;
}

// Goes on with what is recorded so far, until `core` of `cores` has done all of it: false if it
// waits for another core, whose program is not `complete`. `dead`: tensors that no further
// instruction will name, whose values go behind their last use.
bool evaluate(Recorder& r, int core, int cores, bool complete,
              const std::vector<std::uint32_t>& dead) {
  Memory& memory = r.live_memory();
  if (r.evaluation == nullptr) {  // what device_print says belongs to the run
    r.evaluation = std::make_unique<Evaluation>(r.program, memory, cores,
                                                options_for(r, py::bool_(false), py::none()));
  }
  bool done = false;
  if (!dead.empty()) r.evaluation->release_behind(last_uses(r.program, dead));
  {
    const py::gil_scoped_release release;
    done = r.evaluation->advance(core, complete);
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  return done;
}

// Runs it as a world of one rank. `files` has the names of reports to write (accounting_json,
// session, perfetto, chrome), and "explain" if their text is wanted as well.
py::dict run(Recorder& r, const std::string& config_name, const std::vector<std::string>& overrides,
             const py::dict& files, const py::object& warn, const py::object& print,
             const py::dict& chosen) {
  const RunChoices choices = run_choices_of(chosen);
  const auto config = machine_description(config_name, overrides);
  const InterpretOptions services = options_for(r, warn, print);
  const auto go_on = [&] { return services.progress(0); };
  const bool explain = files.contains("explain"), values = !choices.timing_only;
  Memory* memory = values ? &r.live_memory() : nullptr;
  const bool again = (explain || choices.stop.wanted()) && values;
  const Inputs inputs = again ? share_inputs(r.program, r.live_memory()) : Inputs();
  nkisim::RunCallbacks callbacks{.go_on = go_on};
  if (values) callbacks.fresh = [&] { return memory_with(r.program, inputs); };
  if (choices.full_confidence && r.recorded) {
    callbacks.switches = [&] {
      return nkisim::try_switches(r.trace, *r.recorded, r.used, *config, go_on);
    };
  }
  auto done = std::make_unique<Run>(rank_inputs(r, memory, services, files, choices), config);
  nkisim::FreshMemories fresh;
  if (values) {
    fresh = [&] {
      std::vector<std::unique_ptr<Memory>> one;
      one.push_back(memory_with(r.program, inputs));
      return one;
    };
  }
  done->execution.plan(choices.stop);
  execute(done->execution, callbacks, choices.keep_partial, fresh, chosen);
  py::dict out = counts_of(done->execution, done->artifacts, 0, choices.timed);
  out["stop"] = stop_of(done->execution, fresh);
  if (explain && choices.timed) {
    std::ostringstream said;
    const auto& rank = done->artifacts.ranks.front();
    nkisim::print_explanation(said, *rank.accounting, nkisim::Totals(rank.summary).bottleneck(),
                              done->artifacts.changes);
    out["explanation"] = said.str();
  }
  if (choices.timed) out["figures"] = figures_of(std::move(done), py::cast(&r));
  return out;
}

// The warnings of a program: texts, the kernel's files and lines, ("", 0) where there is no one
// line.
using Warnings = std::vector<std::tuple<std::string, std::string, std::uint32_t>>;

// Finds races before a run. Raises them as an Error, or returns them with `allow_races`; both have
// places. Without `values`, operands whose addresses are in memory are left out. Warnings on the
// program as it was recorded come first.
Warnings check_races(Recorder& r, bool allow_races, bool values) {
  Warnings lines;
  for (const isa::Error& e : nkisim::checks::warnings(r.remarks, r.policy)) {
    lines.emplace_back(isa::warning_text(e), e.kernel_file(), e.loc().kernel_line);
  }
  if (!nkisim::checks::may_race(r.program)) return lines;
  InterpretOptions options = options_for(r, py::bool_(false), py::none());
  const auto load = [&] {
    return memory_with(r.program, share_inputs(r.program, r.live_memory()));
  };
  nkisim::checks::RaceReport found;
  {
    const py::gil_scoped_release release;
    found = values ? nkisim::checks::find_races(r.program, load, options)
                   : nkisim::checks::find_races(r.program, {}, options);
  }
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (found.races.empty()) return lines;
  if (!allow_races) throw nkisim::checks::race_error(r.program, found);
  for (std::string& line : nkisim::race_lines(r.program, found, {})) {
    lines.emplace_back(std::move(line), "", 0);
  }
  return lines;
}

// The memory of an array that has an output.
struct OutputBytes {
  Pages pages;
  std::int64_t size;
};

}  // namespace

void bind_running(py::class_<Recorder>& program) {
  py::class_<OutputBytes>(program, "OutputBytes", py::buffer_protocol())
      .def_buffer([](const OutputBytes& held) {
        return py::buffer_info(static_cast<std::uint8_t*>(held.pages.data()), held.size);
      });
  program
      .def("load",
           [](Recorder& r, std::uint32_t id, const py::buffer& data) {
             r.live_memory().load(id, bytes_of(data.request()));
           })
      .def("read",
           [](Recorder& r, std::uint32_t id, const py::buffer& out) {
             const py::buffer_info info = out.request(true);
             r.live_memory().read(id, {static_cast<std::byte*>(info.ptr),
                                       static_cast<std::size_t>(info.size * info.itemsize)});
           })
      .def("copy",  // an output's bytes; None: they are to be read
           [](Recorder& r, std::uint32_t id) -> py::object {
             Pages pages = r.live_memory().copy(id);
             if (!pages) return py::none();
             const Tensor& t = r.program.tensor(id);
             return py::cast(new OutputBytes{.pages = std::move(pages),
                                             .size = t.elements() * size_bytes(t.dtype)},
                             py::return_value_policy::take_ownership);
           })
      .def("evaluate", &evaluate)
      .def_readwrite("stochastic_rounding", &Recorder::stochastic_rounding)
      .def_readwrite("limits_ranks", &Recorder::limits_ranks)
      .def_readwrite("other_operators", &Recorder::other_operators)
      .def_property(
          "sdk", [](const Recorder& r) { return r.program.sdk(); },
          [](Recorder& r, int minor) { r.program.set_sdk(minor); })
      .def("may_race", [](const Recorder& r) { return nkisim::checks::may_race(r.program); })
      .def("set_rules",
           [](Recorder& r, const std::vector<std::string>& suppress,
              const std::vector<std::string>& error, bool unread,
              const std::vector<std::string>& warn, bool strict, int sdk) {
             r.policy = RulePolicy({suppress, error, unread, strict, warn, sdk});
           })
      .def("check_races", &check_races)
      .def("run", &run);
}

}  // namespace nkisim::python
