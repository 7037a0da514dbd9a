// Gives Python the instruction table, rules and machine facts, and writes a program's files and
// reports.
#include <pybind11/stl.h>

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>
#include <vector>

#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"
#include "isa/host/host.hpp"
#include "isa/host/memory_bound.hpp"
#include "python/binding/bind.hpp"
#include "python/binding/compile.hpp"
#include "python/binding/machine.hpp"
#include "src/report/report.hpp"
#include "src/run/run.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::python {
namespace {

// Checks limits against a summary and the run's totals in JSON: (text, kept, message) each.
std::vector<std::tuple<std::string, bool, std::string>> check_budgets(
    const std::vector<std::string>& texts, const std::string& summary, const std::string& totals) {
  const auto metrics = nlohmann::ordered_json::parse(summary);
  const auto all = nlohmann::ordered_json::parse(totals);
  std::vector<std::tuple<std::string, bool, std::string>> rows;
  for (const std::string& text : texts) {
    const nkisim::BudgetResult result =
        nkisim::check_budget(nkisim::parse_budget(text), metrics, all);
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

// The name of the kind that a rule is of.
std::string kind_of_rule(const std::string& id) {
  const auto rule = find_rule(id);
  if (!rule) throw py::key_error(id);
  return std::string(info(info(*rule).kind).name);
}

// Writes the trace, as compiled or as recorded; the data of input `id` is array `keys[id]` of the
// .npz file next to it.
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
  for (auto& [file, text] : nkisim::sources_of(r.program, {.own_kernel = true})) {
    r.program.add_source(file, text);
  }
  if (compiled) {
    nkisim::write_trace(r.trace, path);
  } else {
    write_recorded(r, path);
  }
}

// (file, line, message) of what the compiler of an SDK release refuses.
std::vector<std::tuple<std::string, std::uint32_t, std::string>> refused(const Recorder& r,
                                                                         const std::string& sdk) {
  std::vector<std::tuple<std::string, std::uint32_t, std::string>> rows;
  for (const Error& e : nkisim::refusals(r.program, nkisim::parse_release(sdk))) {
    rows.emplace_back(e.kernel_file(), e.loc().kernel_line, e.instruction() + ": " + e.message());
  }
  return rows;
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
                              std::string(op->doc), op->exact_shapes));
  }
  return all;
}

// Kinds of parameters by number: help, annotation, whether the instruction writes them.
std::vector<std::tuple<std::string, std::string, bool>> describe_kinds() {
  std::vector<std::tuple<std::string, std::string, bool>> kinds;
  for (std::size_t i = 0; i < kParamKinds.size(); ++i) {
    kinds.emplace_back(kParamKinds[i].help, kParamKinds[i].annotation,
                       is_written(static_cast<ParamKind>(i)));
  }
  return kinds;
}

// The code of an operator's name; -1 if it is none.
template <typename Code>
int code_of(const std::optional<Code>& known) {
  return known ? static_cast<int>(*known) : -1;
}

py::object describe_machine(const std::string& target, const std::string& config,
                            const std::vector<std::string>& overrides) {
  if (!find_machine(target)) return py::none();
  const isa::Machine sizes = machine_sizes(target, config, overrides);
  const isa::Machine* const found = &sizes;
  py::dict d;
  d["generation"] = static_cast<int>(found->generation) + 2;
  d["sbuf_partition_bytes"] = found->sbuf_partition_bytes;
  d["psum_partition_bytes"] = found->psum_partition_bytes;
  d["psum_banks"] = found->psum_banks;
  d["matmul_moving_max"] = found->matmul_moving_max;
  d["cores_per_chip"] = found->cores_per_chip;
  d["hbm_chip_bytes"] = found->hbm_chip_bytes;
  d["pe_rows"] = found->pe_rows;
  d["pe_columns"] = found->pe_columns;
  return d;
}

// Every name of a target, with the target.
std::map<std::string, std::string> list_targets() {
  std::map<std::string, std::string> names;
  for (const isa::TargetName& known : isa::target_names()) {
    names.emplace(known.name, known.target);
  }
  return names;
}

// The share of the machine that this process may have, and missing services of the system:
// (service, consequence).
py::dict describe_host() {
  std::vector<std::pair<std::string, std::string>> lacks;
  for (const host::MissingService& lack : host::missing_services())
    lacks.emplace_back(lack.what, lack.follows);
  py::dict d;
  d["memory_bytes"] = host::memory_bytes();
  d["lacks"] = lacks;
  return d;
}

// Bytes of a contiguous array as numbers of a dtype's name; "float64" is none of ours.
nkisim::Numbers numbers_of(const py::buffer_info& info, const std::string& dtype) {
  return {dtype == "float64" ? std::nullopt : parse_dtype(dtype),
          {static_cast<const std::byte*>(info.ptr),
           static_cast<std::size_t>(info.size * info.itemsize)}};
}

// The distance of `found` from `expected`, contiguous arrays of bytes whose dtypes are named.
py::dict compare(const py::buffer& found, const std::string& found_dtype,
                 const py::buffer& expected, const std::string& expected_dtype, double rtol,
                 double atol, const std::optional<double>& rel_l2) {
  const py::buffer_info x = found.request(), y = expected.request();
  nkisim::Difference d;
  {
    const py::gil_scoped_release release;
    d = nkisim::compare(numbers_of(x, found_dtype), numbers_of(y, expected_dtype),
                        {.rtol = rtol, .atol = atol, .rel_l2 = rel_l2});
  }
  using namespace py::literals;  // NOLINT(google-build-using-namespace)
  return py::dict("equal"_a = d.equal, "elements"_a = d.elements, "mismatches"_a = d.mismatches,
                  "first"_a = d.first, "max_abs"_a = d.max_abs_error, "max_rel"_a = d.max_rel_error,
                  "rel_l2"_a = d.rel_l2, "worst"_a = d.worst, "found"_a = d.got,
                  "expected"_a = d.expected);
}

}  // namespace

void bind_documents(py::module_& m, py::class_<Recorder>& program) {
  m.def("ops", &describe_ops);
  m.def("param_kinds", &describe_kinds);
  m.def("alu", [](const std::string& s) { return code_of(parse_alu(s)); });
  m.def("act", [](const std::string& s) { return code_of(parse_act(s)); });
  m.def("machine", &describe_machine, py::arg("target"), py::arg("config") = "",
        py::arg("overrides") = std::vector<std::string>{});
  m.def("targets", &list_targets);
  m.def("find_target", [](const std::string& name) { return std::string(find_target(name)); });
  m.def("host", &describe_host);
  py::class_<host::MemoryBound>(m, "MemoryBound")
      .def(py::init<>())
      .def("reached", &host::MemoryBound::reached);
  m.def("without_memory_bounds", &host::without_memory_bounds);
  m.def("check_budgets", &check_budgets, py::arg("texts"), py::arg("summary"),
        py::arg("totals") = "{}");
  m.def("compare", &compare);
  m.def("junit_xml", &junit_xml);
  m.def("kind_of_rule", &kind_of_rule);
  program.def("save", &save).def("refusals", &refused);
}

}  // namespace nkisim::python
