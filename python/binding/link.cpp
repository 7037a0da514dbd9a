// Sends compiled programs as bytes, and carries messages between processes that simulate ranks.

#include "python/binding/link.hpp"

#include <pybind11/stl.h>

#include "python/binding/machine.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::python {
namespace {

// (trace, rounding's seed, kernel, legacy, over capacity, passes): all that a run of the compiled
// program takes from it, but for its inputs.
py::tuple to_bytes(Recorder& r) {
  r.trace.cores = r.program.cores();
  r.trace.data.assign(r.program.tensors().size(), {});
  const nkisim::ProgramOrigin& o = r.origin;
  r.program.keep_folders(true);  // messages of the other process name the same files
  const std::string trace = nkisim::format_trace(r.trace, nkisim::TraceForm::kBinary);
  r.program.keep_folders(false);
  return py::make_tuple(py::bytes(trace), r.stochastic_rounding, o.kernel, o.legacy,
                        o.over_capacity, o.passes);
}

// The program is as it was recorded: messages name its kernel's lines and none of a trace.
std::unique_ptr<Recorder> from_bytes(const py::bytes& trace, std::optional<std::uint32_t> rounding,
                                     bool kernel, bool legacy, bool over_capacity,
                                     std::vector<std::pair<std::string, std::size_t>> passes) {
  auto r = std::make_unique<Recorder>(nkisim::read_trace_text(
      std::string_view(trace), "",
      {.target = {}, .machine = {}, .allow_over_capacity = true, .progress = {}}));
  Program::Version bare = r->program.version();
  bare.forget_trace_lines();
  r->program.restore(bare);
  r->stochastic_rounding = rounding;
  r->origin = {.kernel = kernel,
               .legacy = legacy,
               .over_capacity = over_capacity,
               .alone = true,
               .passes = std::move(passes),
               .switches = {}};
  return r;
}

// Ranks that run it and share an HBM stack, and so must be of one process.
int ranks_per_stack(const Recorder& r, const std::string& config,
                    const std::vector<std::string>& overrides) {
  return models::ranks_per_stack(*machine_description(config, overrides), r.program.cores());
}

}  // namespace

std::vector<Message> PythonLink::meet(const std::string& all,
                                      const std::vector<std::string>& each) {
  const py::gil_scoped_acquire gil;
  py::list words;
  for (const std::string& one : each) words.append(py::bytes(one));
  std::vector<Message> messages;
  for (const py::handle part : py::list(meet_(py::bytes(all), words))) {
    const auto [to_all, mine] = part.cast<std::pair<std::string, std::string>>();
    messages.push_back({to_all, mine});
  }
  return messages;
}

void bind_link(py::class_<Recorder>& program) {
  program.def("to_bytes", &to_bytes)
      .def_static("from_bytes", &from_bytes)
      .def("ranks_per_stack", &ranks_per_stack);
}

}  // namespace nkisim::python
