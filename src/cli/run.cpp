// nkisim run: simulates a trace, values and time.
#include <algorithm>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "isa/interpreter.hpp"
#include "src/cli/command.hpp"
#include "src/cli/compile_options.hpp"
#include "src/cli/interrupt.hpp"
#include "src/cli/progress.hpp"
#include "src/cli/run_reports.hpp"
#include "src/cli/run_result.hpp"
#include "src/config/config.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  auto add = named.add_options();
  add("target,t", po::value<std::string>(),
      "trn1, inf2, trn2 or trn3 instead of the trace's target");
  add("targets", po::value<std::string>(), "several targets, comma-separated: one row each");
  add_config_options(named);
  add("inputs", po::value<std::string>(), "NPZ with input tensors, by name");
  add("functional", "values only, in program order, without time");
  add("timing-only", "time only, without values");
  add("allow-unwritten", "reading memory nobody wrote gives zeros instead of an error");
  add_compiler_options(named);
  add("stochastic-rounding", po::value<std::uint32_t>(),
      "seed: round narrowing stores of the engines stochastically instead of to nearest even");
  add("allow-over-capacity",
      "do not fail when a placed trace exceeds SBUF or PSUM (--over-capacity does the same)");
  add_result_options(named);
  add_report_options(named);
  add("quiet,q", "print nothing but errors and differences");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

TraceFile read(const Args& args, const std::string& target) {
  Progress progress("reading");
  return read_trace(
      required(args, "trace"),
      {.target = target,
       .allow_over_capacity = given(args, "allow-over-capacity") || given(args, "over-capacity"),
       .progress = [&](std::uint64_t done, std::uint64_t all) {
         if (Interrupts::signal() != 0) throw Interrupted{Interrupts::signal()};
         progress.update(done, all);
       }});
}

std::unique_ptr<isa::Memory> load_memory(const Args& args, const TraceFile& trace) {
  auto memory = std::make_unique<isa::Memory>(*trace.program);
  LoadOptions load;
  if (given(args, "inputs")) load.inputs = read_npz(text(args, "inputs"));
  load_inputs(trace, *memory, load);
  return memory;
}

isa::Unwritten unwritten(const Args& args) {
  return given(args, "allow-unwritten") ? isa::Unwritten::kAllow : isa::Unwritten::kError;
}

std::optional<std::uint32_t> rounding_seed(const Args& args) {
  if (!given(args, "stochastic-rounding")) return std::nullopt;
  return args["stochastic-rounding"].as<std::uint32_t>();
}

void print_line(const std::string& line) { std::cerr << line << '\n'; }

// A recorded program is compiled like a kernel, any other only as the switches say.
void compile(const Args& args, Outcome& out) {
  out.moved = cli::compile(args, out.trace, out.trace.open).changed("schedule");
}

void run_functional(const Args& args, Outcome& out) {
  Progress progress("executing");
  out.result.instructions = isa::interpret(*out.trace.program, *out.memory,
                                           {.unwritten = unwritten(args),
                                            .print = print_line,
                                            .stochastic_rounding = rounding_seed(args),
                                            .progress = [&](std::uint64_t n) {
                                              progress.update(n, 0);
                                              out.result.partial = Interrupts::signal() != 0;
                                              return !out.result.partial;
                                            }});
}

void run_timed(const Args& args, Outcome& out) {
  const models::Config config = config_for(args, *out.trace.program);
  const std::uint64_t total = out.trace.program->insts().size();
  Progress progress("simulating");
  SimOptions sim{.timing_only = out.memory == nullptr,
                 .unwritten = unwritten(args),
                 .print = print_line,
                 .stochastic_rounding = rounding_seed(args)};
  out.reports = std::make_unique<Reports>(report_files(args));
  sim.observers.push_back(&out.summary);
  out.reports->observe(sim.observers);
  sim.progress = [&](std::uint64_t n, models::Fs) {
    progress.update(std::min(n, total), total);
    return Interrupts::signal() == 0;
  };
  out.result = simulate(*out.trace.program, config, out.memory.get(), sim);
  progress.clear();
  MakeMemory fresh;  // a timing-only run needs none
  if (out.memory != nullptr) fresh = [&] { return load_memory(args, out.trace); };
  out.changes = finish_reports(args, *out.reports, config, out.summary, out.result, fresh);
}

std::unique_ptr<Outcome> run_one(const Args& args, const std::string& target) {
  std::vector<Budget> budgets;  // a bad one is said before the run
  for (const std::string& b : texts(args, "budget")) budgets.push_back(parse_budget(b));
  const auto started = std::chrono::steady_clock::now();
  auto out = std::make_unique<Outcome>();
  out->trace = read(args, target);
  compile(args, *out);
  const bool timing_only = given(args, "timing-only") || out->trace.program->timing_only();
  out->timed = !given(args, "functional");
  if (!out->timed && timing_only) {
    usage("--functional needs a trace with data and excludes --timing-only");
  }
  if (!out->timed && !budgets.empty()) usage("--budget needs time; drop --functional");
  if (!timing_only) out->memory = load_memory(args, out->trace);
  if (out->timed)
    run_timed(args, *out);
  else
    run_functional(args, *out);
  out->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  conclude(args, budgets, *out);
  return out;
}

void print_row(const std::string& target, const Outcome& out) {
  const double seconds = out.summary.metrics().at("total_time").get<double>();
  std::ostringstream latency;
  latency << std::fixed << std::setprecision(3) << seconds * 1e6 << " us";
  std::cout << std::left << std::setw(9) << target << std::setw(16) << latency.str()
            << bottleneck(out.summary) << '\n';
}

int run_targets(const Args& args) {
  for (const char* one : {"perfetto", "chrome", "session", "html", "accounting-json", "outputs",
                          "summary-json", "junit", "explain", "functional"}) {
    if (given(args, one)) usage("--targets prints one row per target; drop --" + std::string(one));
  }
  std::istringstream list(text(args, "targets"));
  const bool json = given(args, "json");
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) std::cout << "target   total_time      bottleneck\n";
  int code = kOk;
  for (std::string target; std::getline(list, target, ',');) {
    const auto out = run_one(args, target);
    if (json)
      rows.push_back(to_json(*out));
    else
      print_row(target, *out);
    print_failures(args, *out);
    code = std::max(code, exit_code(*out));
    if (out->result.partial) break;
  }
  if (json)
    std::cout << nlohmann::ordered_json{{"ok", code == kOk}, {"targets", rows}}.dump(1) << '\n';
  return code;
}

int run(const Args& args) {
  const Interrupts interrupts;
  if (given(args, "targets")) return run_targets(args);
  const std::string config = text(args, "config");
  std::string target = text(args, "target");
  if (target.empty() && !config.empty()) target = load_config(config).target;
  const auto out = run_one(args, target);
  print_result(args, *out);
  return exit_code(*out);
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
      "  nkisim run k.nisa --budget 'total_time<=250us' --budget 'mfu_estimated_percent>=40%'\n"
      "  nkisim run k.nisa --targets trn1,trn2,trn3\n\n"
      "Ctrl-C ends a run early: every report is written of what ran until then, says that it is\n"
      "partial, and the exit code is 130 (SIGTERM: 143). A second Ctrl-C ends at once.\n",
      options,
      run};
  return kCommand;
}

}  // namespace nkisim::cli
