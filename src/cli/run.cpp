// nkisim run: simulates a trace, values and time.
#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "isa/interpreter.hpp"
#include "src/atomic_file.hpp"
#include "src/cli/command.hpp"
#include "src/cli/progress.hpp"
#include "src/cli/run_reports.hpp"
#include "src/config_json.hpp"
#include "src/golden.hpp"
#include "src/observers/summary.hpp"
#include "src/simulation.hpp"
#include "src/trace_reader.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  auto add = named.add_options();
  add("target,t", po::value<std::string>(),
      "trn1, inf2, trn2 or trn3 instead of the trace's target");
  add("targets", po::value<std::string>(), "several targets, comma-separated: one row each");
  add("config", po::value<std::string>(), "machine description: a built-in name or a JSON file");
  add("set", po::value<std::vector<std::string>>(),
      "path=value: override one number of the config");
  add("inputs", po::value<std::string>(), "NPZ with input tensors, by name");
  add("outputs", po::value<std::string>(), "write the output tensors to this NPZ");
  add("expect", po::value<std::string>(),
      "compare the outputs with this NPZ; exit 1 if they differ");
  add("rtol", po::value<double>()->default_value(1e-5), "relative tolerance of --expect");
  add("atol", po::value<double>()->default_value(1e-8), "absolute tolerance of --expect");
  add("functional", "values only, in program order, without time");
  add("timing-only", "time only, without values");
  add("allow-unwritten", "reading memory nobody wrote gives zeros instead of an error");
  add("allow-over-capacity", "do not fail when SBUF or PSUM is exceeded");
  add("summary-json", po::value<std::string>(), "write neuron-profile's summary here");
  add("summary-text", "print every metric of neuron-profile's summary instead of the short one");
  add_report_options(named);
  add("json", "print the summary as JSON on standard output");
  add("quiet,q", "print nothing but errors and differences");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

bool given(const Args& args, const char* option) { return args.count(option) != 0; }

TraceFile read(const Args& args, const std::string& target) {
  Progress progress("reading");
  return read_trace(
      required(args, "trace"),
      {.target = target,
       .allow_over_capacity = given(args, "allow-over-capacity"),
       .progress = [&](std::uint64_t done, std::uint64_t all) { progress.update(done, all); }});
}

models::Config config_for(const Args& args, const isa::Program& program) {
  const std::string chosen = text(args, "config");
  models::Config config = load_config(
      chosen.empty() ? std::string(program.machine().target) : chosen, texts(args, "set"));
  if (config.target != program.machine().target) {
    usage("config " + chosen + " describes " + config.target + " but the trace runs on " +
          std::string(program.machine().target) + "; add --target " + config.target);
  }
  return config;
}

std::unique_ptr<isa::Memory> load_memory(const Args& args, const TraceFile& trace) {
  auto memory = std::make_unique<isa::Memory>(*trace.program);
  LoadOptions load;
  if (given(args, "inputs")) load.inputs = read_npz(text(args, "inputs"));
  load_inputs(trace, *memory, load);
  return memory;
}

// One finished run and its reports.
struct Outcome {
  TraceFile trace;
  std::unique_ptr<isa::Memory> memory;
  Summary summary;
  SimResult result;
};

isa::Unwritten unwritten(const Args& args) {
  return given(args, "allow-unwritten") ? isa::Unwritten::kAllow : isa::Unwritten::kError;
}

void print_line(const std::string& line) { std::cerr << line << '\n'; }

void run_functional(const Args& args, Outcome& out) {
  Progress progress("executing");
  out.result.instructions = isa::interpret(
      *out.trace.program, *out.memory,
      {.unwritten = unwritten(args), .print = print_line, .progress = [&](std::uint64_t n) {
         progress.update(n, 0);
         return true;
       }});
}

void run_timed(const Args& args, Outcome& out) {
  const models::Config config = config_for(args, *out.trace.program);
  const std::uint64_t total = out.trace.program->insts().size();
  Progress progress("simulating");
  SimOptions sim{
      .timing_only = out.memory == nullptr, .unwritten = unwritten(args), .print = print_line};
  RunReports reports(args);
  sim.observers.push_back(&out.summary);
  reports.observe(sim.observers);
  sim.progress = [&](std::uint64_t n, models::Fs) {
    progress.update(std::min(n, total), total);
    return true;
  };
  out.result = simulate(*out.trace.program, config, out.memory.get(), sim);
  progress.clear();
  MakeMemory fresh;  // a timing-only run needs none
  if (out.memory != nullptr) fresh = [&] { return load_memory(args, out.trace); };
  reports.finish(config, out.summary, out.result, fresh);
}

std::unique_ptr<Outcome> run_one(const Args& args, const std::string& target) {
  auto out = std::make_unique<Outcome>();
  out->trace = read(args, target);
  const bool timing_only = given(args, "timing-only") || out->trace.program->timing_only();
  if (!timing_only) out->memory = load_memory(args, out->trace);
  if (given(args, "functional")) {
    if (timing_only) usage("--functional needs a trace with data and excludes --timing-only");
    run_functional(args, *out);
  } else {
    run_timed(args, *out);
  }
  return out;
}

// What the run is bound by, in words: "TensorEngine (93 % active)".
std::string bottleneck(const Summary& summary) {
  constexpr double kBound = 0.6;  // busy for less than this explains nothing
  constexpr std::array<std::pair<const char*, const char*>, 5> kCandidates = {
      {{"TensorEngine", "tensor_engine_active_time_percent"},
       {"VectorEngine", "vector_engine_active_time_percent"},
       {"ScalarEngine", "scalar_engine_active_time_percent"},
       {"GpSimdEngine", "gpsimd_engine_active_time_percent"},
       {"DMA", "dma_active_time_percent"}}};
  const auto metrics = summary.metrics();
  const auto share = [&metrics](const auto& c) {
    return metrics.at(c.second).template get<double>();
  };
  const auto& best =
      *std::max_element(kCandidates.begin(), kCandidates.end(),
                        [&](const auto& a, const auto& b) { return share(a) < share(b); });
  std::ostringstream text;
  text << (share(best) < kBound ? "latency; busiest is " : "") << best.first << " ("
       << std::lround(share(best) * 100) << " % active)";
  return text.str();
}

// The lines most runs are looked at for.
void print_brief(const Summary& summary) {
  const auto m = summary.metrics();
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
            << number("mfu_estimated_percent") * 100 << " %\nbottleneck   " << bottleneck(summary)
            << '\n';
}

std::string short_number(double x) {
  std::ostringstream s;
  s << std::setprecision(4) << x;
  return s.str();
}

bool compare_outputs(const Args& args, const Outcome& out) {
  if (out.memory == nullptr) usage("--expect needs values; drop --timing-only");
  const double rtol = args["rtol"].as<double>(), atol = args["atol"].as<double>();
  const auto rows =
      compare(*out.trace.program, *out.memory, read_npz(text(args, "expect")), rtol, atol);
  for (const Comparison& row : rows) {
    std::ostream& stream = row.mismatches == 0 ? std::cout : std::cerr;
    if (row.mismatches == 0 && (given(args, "quiet") || given(args, "json"))) continue;
    stream << "output " << row.tensor << ": ";
    if (row.mismatches == 0)
      stream << "equal, " << row.elements << " elements";
    else
      stream << row.mismatches << " of " << row.elements << " elements differ";
    stream << " (rtol " << rtol << ", atol " << atol << "; largest error "
           << short_number(row.max_abs_error) << " absolute, " << short_number(row.max_rel_error)
           << " relative";
    if (row.mismatches != 0) {
      stream << "; worst at " << row.worst << ": got " << short_number(row.got) << ", expected "
             << short_number(row.expected);
    }
    stream << ")\n";
  }
  return all_match(rows);
}

int finish(const Args& args, const Outcome& out) {
  const bool timed = !given(args, "functional");
  if (given(args, "outputs")) {
    if (out.memory == nullptr) usage("--outputs needs values; drop --timing-only");
    write_npz(text(args, "outputs"), output_arrays(*out.trace.program, *out.memory));
  }
  if (timed && given(args, "summary-json")) {
    AtomicFile file(text(args, "summary-json"));
    file.write(out.summary.json().dump(1) + "\n");
    file.commit();
  }
  const bool matches = !given(args, "expect") || compare_outputs(args, out);
  if (given(args, "json") && timed)
    std::cout << out.summary.json().dump(1) << '\n';
  else if (!given(args, "quiet") && timed) {
    given(args, "summary-text") ? out.summary.print(std::cout) : print_brief(out.summary);
  } else if (!given(args, "quiet"))
    std::cout << out.result.instructions << " instructions executed\n";
  return matches ? kOk : kDiffers;
}

std::string latency(const Summary& summary) {
  std::ostringstream s;
  s << std::fixed << std::setprecision(3) << summary.metrics().at("total_time").get<double>() * 1e6
    << " us";
  return s.str();
}

int run_targets(const Args& args) {
  std::istringstream list(text(args, "targets"));
  std::cout << "target   total_time      bottleneck\n";
  int code = kOk;
  for (std::string target; std::getline(list, target, ',');) {
    const auto out = run_one(args, target);
    std::cout << std::left << std::setw(9) << target << std::setw(16) << latency(out->summary)
              << bottleneck(out->summary) << '\n';
    if (given(args, "expect") && !compare_outputs(args, *out)) code = kDiffers;
  }
  return code;
}

int run(const Args& args) {
  if (given(args, "targets")) return run_targets(args);
  const std::string config = text(args, "config");
  std::string target = text(args, "target");
  if (target.empty() && !config.empty()) target = load_config(config).target;
  return finish(args, *run_one(args, target));
}

}  // namespace

const Command& run_command() {
  static const Command kCommand = {
      "run",
      "simulate a trace: values, latency, profile",
      "nkisim run TRACE [options]",
      "  nkisim run traces/flash_attention.jsonl --target trn2 \\\n"
      "    --expect traces/flash_attention.npz --rtol 2e-2 --atol 2e-2\n"
      "  nkisim run k.nisa --summary-json k.json --perfetto k.pftrace\n"
      "  nkisim run k.nisa --set dma.bytes_per_ns=54.4 --timing-only\n"
      "  nkisim run k.nisa --targets trn1,trn2,trn3\n",
      options,
      run};
  return kCommand;
}

}  // namespace nkisim::cli
