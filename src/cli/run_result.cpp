#include "src/cli/run_result.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "src/cli/interrupt.hpp"
#include "src/files/files.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

std::string short_number(double x) {
  std::ostringstream s;
  s << std::setprecision(4) << x;
  return s.str();
}

// The lines most runs are looked at for.
void print_brief(const Summary& summary) {
  const Totals totals(summary);
  const Json& m = totals.metrics();
  const auto number = [&m](const char* key) { return m.at(key).get<double>(); };
  std::cout << std::fixed << std::setprecision(3) << "latency      " << number("total_time") * 1e6
            << " us (" << m.at("neuroncore_cycle_count") << " cycles)\n"
            << std::setprecision(1) << "engines      ";
  for (const char* engine : {"tensor", "vector", "scalar", "gpsimd", "sync"}) {
    std::cout << engine << ' '
              << number((std::string(engine) + "_engine_active_time_percent").c_str()) * 100
              << " %  ";
  }
  std::cout << "\nDMA          active " << number("dma_active_time_percent") * 100 << " %, "
            << m.at("dma_transfer_count") << " transfers, HBM read "
            << number("hbm_read_bytes") / 1024 << " KiB, written "
            << number("hbm_write_bytes") / 1024 << " KiB, " << number("mbu_estimated_percent") * 100
            << " % of HBM bandwidth\n";
  std::cout << "flops        " << number("hardware_flops") / 1e9 << " GFLOP, MFU "
            << number("mfu_estimated_percent") * 100 << " %\nbottleneck   " << totals.bottleneck()
            << '\n';
}

std::string describe_left_out(const std::string& name) {
  return "output " + name + ": not compared, --expect has no array of this name";
}

// "output o: 3 of 64 elements differ (rtol ...; worst at ...)".
std::string describe(const Args& args, const Comparison& row) {
  std::ostringstream text;
  text << "output " << row.tensor << ": ";
  if (row.equal)
    text << "equal, " << row.elements << " elements";
  else
    text << row.mismatches << " of " << row.elements << " elements differ";
  if (given(args, "rel-l2"))
    text << " (relative L2 error " << short_number(row.rel_l2) << " of at most "
         << args["rel-l2"].as<double>();
  else
    text << " (rtol " << args["rtol"].as<double>() << ", atol " << args["atol"].as<double>();
  text << "; largest error " << short_number(row.max_abs_error) << " absolute, "
       << short_number(row.max_rel_error) << " relative";
  if (!row.equal) {
    text << "; worst at " << row.worst << ": got " << short_number(row.got) << ", expected "
         << short_number(row.expected);
  }
  text << ")";
  return text.str();
}

Json to_json(const Recorded& facts) {
  Json j = {{"api", facts.legacy ? "neuronxcc" : "nki"},
            {"instructions", facts.instructions},
            {"constant_bytes", facts.constant_bytes},
            {"inputs", Json::array()}};
  for (const BoundInput& i : facts.inputs) {
    j["inputs"].push_back({{"key", i.key}, {"tensor", i.tensor}, {"written", i.written}});
  }
  return j;
}

Json to_json(const Comparison& row) {
  return {{"output", row.tensor},
          {"equal", row.equal},
          {"elements", row.elements},
          {"mismatches", row.mismatches},
          {"max_abs_error", row.max_abs_error},
          {"max_rel_error", row.max_rel_error},
          {"rel_l2", row.rel_l2},
          {"worst", row.worst},
          {"got", row.got},
          {"expected", row.expected}};
}

void write_junit(const Args& args, const Outcome& out) {
  std::vector<TestCase> cases;
  if (out.result.partial) {
    cases.push_back(
        {"run", false,
         out.stopped_by.empty() ? "the run was interrupted" : out.stopped_by + " was reached"});
  }
  for (const std::string& name : out.left_out) {
    cases.push_back({"output " + name, given(args, "expect-subset"), describe_left_out(name)});
  }
  for (const Comparison& row : out.outputs) {
    cases.push_back({"output " + row.tensor, row.equal, describe(args, row)});
  }
  for (const BudgetResult& b : out.budgets) {
    cases.push_back({"budget " + b.budget.text, b.kept, b.message});
  }
  if (cases.empty()) cases.push_back({"run", true, ""});
  write_text(text(args, "junit"),
             junit_xml("nkisim run " + text(args, "trace"), cases, out.seconds));
}

void print_interruption(const Outcome& out) {
  if (Interrupts::signal() == 0 && out.stopped_by.empty()) return;
  const std::string how = out.stopped_by.empty() ? "interrupted" : "stopped by " + out.stopped_by;
  if (!out.result.partial) {
    std::cerr << "nkisim: " << how << " after the simulation; what-ifs may be missing\n";
    return;
  }
  std::cerr << "nkisim: " << how << " after " << out.result.instructions << " instructions"
            << (out.timed ? ", " + short_number(models::to_ns(out.result.end) / 1e3) +
                                " us of simulated time; every report is of this part"
                          : "")
            << '\n';
}

void print_outputs(const Args& args, const Outcome& out, bool quiet) {
  for (const Comparison& row : out.outputs) {
    if (!row.equal)
      std::cerr << describe(args, row) << '\n';
    else if (!quiet)
      std::cout << describe(args, row) << '\n';
  }
  for (const std::string& name : out.left_out) std::cerr << describe_left_out(name) << '\n';
}

}  // namespace

void print_budgets(const std::vector<BudgetResult>& budgets, bool quiet) {
  for (const BudgetResult& b : budgets) {
    if (!b.kept)
      std::cerr << "nkisim: over budget: " << b.message << '\n';
    else if (!quiet)
      std::cout << "budget       " << b.budget.text << ": kept, " << b.message << '\n';
  }
}

void write_text(const std::string& name, const std::string& bytes) {
  AtomicFile file(name);
  file.write(bytes);
  file.commit();
}

void add_result_options(po::options_description& named) {
  auto add = named.add_options();
  add("outputs", po::value<std::string>(), "write the output tensors to this NPZ");
  add("expect", po::value<std::string>(),
      "compare the outputs with this NPZ; exit 1 if they differ or one has no array in it");
  add("expect-subset", "outputs that --expect has no array for are only named");
  add("rtol", po::value<double>()->default_value(1e-5), "relative tolerance of --expect");
  add("atol", po::value<double>()->default_value(1e-8), "absolute tolerance of --expect");
  add("rel-l2", po::value<double>(),
      "instead of both: the relative L2 error that each output may have");
  add("budget", po::value<std::vector<std::string>>(),
      "a limit such as 'total_time<=250us'; exit 1 if it is broken; may be repeated");
  add("junit", po::value<std::string>(),
      "write the comparison and the budgets as JUnit XML test cases here");
  add("summary-json", po::value<std::string>(), "write neuron-profile's summary here");
  add("summary-text", "print every metric of neuron-profile's summary instead of the short one");
}

void print_failures(const Args& args, const Outcome& out) {
  print_outputs(args, out, true);
  print_budgets(out.budgets, true);
}

void check_result_options(const Args& args) {
  for (const char* name : {"rtol", "atol", "rel-l2"}) {
    if (!given(args, name)) continue;
    const double tolerance = args[name].as<double>();
    if (!std::isfinite(tolerance) || tolerance < 0) {
      usage(isa::Rule::option_value, "--" + std::string(name) + " is " + short_number(tolerance) +
                                         "; a number of at least 0 is required");
    }
  }
}

Tolerance tolerance(const Args& args) {
  Tolerance limit{.rtol = args["rtol"].as<double>(), .atol = args["atol"].as<double>()};
  if (given(args, "rel-l2")) limit.rel_l2 = args["rel-l2"].as<double>();
  return limit;
}

void conclude(const Args& args, const std::vector<Budget>& budgets, Outcome& out) {
  if (!out.result.partial && given(args, "outputs")) {
    if (out.memory == nullptr)
      usage(isa::Rule::options_exclude, "--outputs needs values; drop --timing-only");
    write_npz(text(args, "outputs"), output_arrays(*out.trace.program, *out.memory));
  }
  if (!out.result.partial && given(args, "expect")) {
    if (out.memory == nullptr)
      usage(isa::Rule::options_exclude, "--expect needs values; drop --timing-only");
    const auto golden = read_golden(*out.trace.program, text(args, "expect"));
    out.outputs = compare(*out.trace.program, *out.memory, golden, tolerance(args));
    out.subset = given(args, "expect-subset");
    out.left_out = left_out(*out.trace.program, golden);
  }
  if (out.timed) {
    const Json summary = out.summary.json();
    if (!budgets.empty()) {
      const Totals totals(out.summary);
      for (const Budget& b : budgets) {
        out.budgets.push_back(check_budget(b, summary, totals.metrics()));
      }
    }
    if (given(args, "summary-json"))
      write_text(text(args, "summary-json"),
                 summary.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  if (given(args, "junit")) write_junit(args, out);
}

int exit_code(const Outcome& out) {
  if (Interrupts::signal() != 0) return kSignalled + Interrupts::signal();
  if (!out.stopped_by.empty()) return kBadInput;
  if (!out.left_out.empty() && !out.subset) return kDiffers;
  const bool kept = std::all_of(out.budgets.begin(), out.budgets.end(),
                                [](const BudgetResult& b) { return b.kept; });
  return all_match(out.outputs) && kept ? kOk : kDiffers;
}

Json to_json(const Outcome& out) {
  const int code = exit_code(out);
  Json j = {{"ok", code == kOk},
            {"exit_code", code},
            {"partial", out.result.partial},
            {"target", out.trace.program->machine().target},
            {"instructions", out.result.instructions}};
  if (!out.stopped_by.empty()) j["stopped_by"] = out.stopped_by;
  if (out.facts) j["recorded"] = to_json(*out.facts);
  if (out.timed) j["summary"] = out.summary.json();
  if (out.timed) Totals(out.summary).put(j);
  if (out.timed && !out.result.partial)
    j["confidence"] = out.confidence.json(out.origin, out.summary);
  for (const compiler::Peak& p : out.peaks) {
    j["peaks"].push_back({{"core", p.core},
                          {"space", p.space == isa::Space::kSbuf ? "SBUF" : "PSUM"},
                          {"partition_bytes", p.bytes}});
  }
  if (!out.left_out.empty()) j["not_compared"] = out.left_out;
  if (!out.outputs.empty()) {
    j["outputs"] = Json::array();
    for (const Comparison& row : out.outputs) j["outputs"].push_back(to_json(row));
  }
  if (!out.budgets.empty()) {
    j["budgets"] = Json::array();
    for (const BudgetResult& b : out.budgets) j["budgets"].push_back(nkisim::to_json(b));
  }
  return j;
}

void print_result(const Args& args, const Outcome& out) {
  const Accounting* accounting =
      given(args, "explain") && out.reports ? out.reports->accounting() : nullptr;
  if (given(args, "json")) {
    Json j = to_json(out);
    if (accounting != nullptr) {
      j["verdict"] = verdict(*accounting, out.changes);
      j["accounting"] = accounting_json(*accounting);
    }
    std::cout << j.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
    print_interruption(out);
    print_failures(args, out);
    return;
  }
  if (accounting != nullptr) print_explanation(std::cout, *accounting, out.changes);
  const bool quiet = given(args, "quiet");
  print_interruption(out);
  print_outputs(args, out, quiet);
  if (!quiet) {
    if (!out.timed)
      std::cout << out.result.instructions << " instructions executed\n";
    else if (given(args, "summary-text"))
      out.summary.print(std::cout);
    else
      print_brief(out.summary);
    if (out.timed && !out.result.partial) {
      std::cout << "trust        "
                << out.confidence.json(out.origin, out.summary)["text"].get<std::string>() << '\n';
    }
    if (out.moved > 0) {
      std::cout << "schedule     list: " << out.moved << " instructions moved\n";
    }
  }
  print_budgets(out.budgets, quiet);
}

}  // namespace nkisim::cli
