// Implements the Python class Debugged, by which a debugger stops at instants of a simulated run
// and reads states of engines and values of tensors.

#include "python/binding/debugged.hpp"

#include <pybind11/stl.h>

#include <optional>

#include "src/job/job.hpp"
#include "src/report/report.hpp"

namespace nkisim::python {
namespace {

class Debugged {
 public:
  Debugged(const std::string& trace, const std::string& target, const std::string& config,
           const std::vector<std::string>& set, const std::string& inputs, bool values) {
    nkisim::Job job{.trace = trace, .target = target, .config = config, .set = set};
    job.inputs = inputs;
    job.values = values;
    const py::gil_scoped_release release;
    run_.emplace(std::move(job));
  }

  // (time) and (core, file, line, line of the trace) of each moment, as bytes of integers. File 0
  // is the trace.
  [[nodiscard]] py::tuple moments() const {
    std::vector<std::int64_t> times, places;
    for (const nkisim::Stops::Moment& m : stops().moments()) {
      const isa::SourceLoc& loc = m.inst->loc;
      const bool kernel = loc.kernel_line > 0 && loc.kernel_file > 0;
      times.push_back(m.time);
      for (const std::int64_t one :
           {std::int64_t{m.core}, kernel ? std::int64_t{loc.kernel_file} : 0,
            static_cast<std::int64_t>(kernel ? loc.kernel_line : loc.trace_line),
            static_cast<std::int64_t>(loc.trace_line)}) {
        places.push_back(one);
      }
    }
    const auto bytes = [](const std::vector<std::int64_t>& all) {
      return py::bytes(reinterpret_cast<const char*>(all.data()), all.size() * 8);
    };
    return py::make_tuple(bytes(times), bytes(places));
  }

  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> files = {program().trace_file()};
    for (const std::string& file : program().files()) files.push_back(file);
    return files;
  }

  [[nodiscard]] std::string describe(std::size_t moment) const {
    return stops().describe(stops().moments().at(moment)).dump();
  }

  [[nodiscard]] std::string state(models::Fs at) const { return stops().state(at).dump(); }

  // (name, space, dtype, shape, core, role) of each tensor.
  [[nodiscard]] py::list tensors() const {
    py::list all;
    for (const isa::Tensor& t : program().tensors()) {
      if (t.is_raw()) continue;
      const bool given = t.role == isa::TensorRole::kInput ||
                         t.role == isa::TensorRole::kConstant ||
                         t.role == isa::TensorRole::kInputOutput;
      all.append(py::make_tuple(t.name, std::string(isa::name(t.space)),
                                std::string(isa::name(t.dtype)), t.shape, t.core, given));
    }
    return all;
  }

  // {name: (dtype, shape, bytes, valid, writers)}.
  py::dict values(models::Fs at, const std::vector<std::string>& names) {
    std::vector<nkisim::StopValue> found;
    {
      const py::gil_scoped_release release;
      found = run_->stops().values(at, names);
    }
    const auto bytes = [](const auto& all) {
      return py::bytes(reinterpret_cast<const char*>(all.data()), all.size());
    };
    py::dict out;
    for (const nkisim::StopValue& v : found) {
      out[py::str(v.name)] = py::make_tuple(std::string(isa::name(v.dtype)), v.shape,
                                            bytes(v.bytes), bytes(v.valid), v.writers);
    }
    return out;
  }

  [[nodiscard]] models::Fs end() const { return stops().end(); }
  [[nodiscard]] const std::string& error() const { return run_->error(); }
  [[nodiscard]] bool has_values() const { return run_->has_values(); }
  [[nodiscard]] std::string target() const { return std::string(program().machine().target); }
  [[nodiscard]] std::uint64_t executed() const { return stops().executed(); }
  [[nodiscard]] std::int64_t kept_bytes() const { return stops().kept_bytes(); }

 private:
  [[nodiscard]] const isa::Program& program() const { return run_->program(); }
  [[nodiscard]] const nkisim::Stops& stops() const { return run_->stops(); }

  std::optional<nkisim::DebugRun> run_;
};

}  // namespace

void bind_debugged(py::module_& m) {
  py::class_<Debugged>(m, "Debugged")
      .def(py::init<const std::string&, const std::string&, const std::string&,
                    const std::vector<std::string>&, const std::string&, bool>(),
           py::arg("trace"), py::arg("target") = "", py::arg("config") = "",
           py::arg("set") = std::vector<std::string>(), py::arg("inputs") = "",
           py::arg("values") = true)
      .def("moments", &Debugged::moments)
      .def("files", &Debugged::files)
      .def("describe", &Debugged::describe)
      .def("state", &Debugged::state)
      .def("tensors", &Debugged::tensors)
      .def("values", &Debugged::values)
      .def_property_readonly("end", &Debugged::end)
      .def_property_readonly("error", &Debugged::error)
      .def_property_readonly("has_values", &Debugged::has_values)
      .def_property_readonly("target", &Debugged::target)
      .def_property_readonly("executed", &Debugged::executed)
      .def_property_readonly("kept_bytes", &Debugged::kept_bytes);
}

}  // namespace nkisim::python
