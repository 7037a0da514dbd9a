// nkisim run: simulates a trace, values and time.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "checks/groups.hpp"
#include "isa/world/interpreter.hpp"
#include "src/cli/command.hpp"
#include "src/cli/compile_options.hpp"
#include "src/cli/interrupt.hpp"
#include "src/cli/limits.hpp"
#include "src/cli/progress.hpp"
#include "src/cli/run_reports.hpp"
#include "src/cli/run_result.hpp"
#include "src/cli/run_world.hpp"
#include "src/config/config.hpp"
#include "src/log/log.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_run {

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
  add("confidence", po::value<std::string>(),
      "quick, or full: trust and --json also say which of the compiler's switches would change a "
      "recorded program's latency by more than 5 % (about 20 runs; default: NKISIM_CONFIDENCE)");
  add("recorded", po::value<std::string>(),
      "NPZ beside the trace: take nothing but a program as a kernel was recorded, with inputs "
      "arg0, "
      "arg1, ... of that archive; --json says what it is (docs/evaluate.md)");
  add("allow-races", "a race is a warning instead of an error (docs/hazards.md)");
  add("allow-unwritten", "what nobody wrote reads as zeros, and nothing is undefined");
  add_compiler_options(named);
  add("stochastic-rounding", po::value<std::uint32_t>(),
      "seed: round narrowing stores of the engines stochastically instead of to nearest even");
  add("allow-over-capacity",
      "do not fail when a placed trace exceeds SBUF or PSUM (--over-capacity does the same)");
  add_result_options(named);
  add_report_options(named);
  add_world_options(named);
  add_limit_options(named);
  add("quiet,q", "print nothing but errors, warnings and differences");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

void go_on(Limits& limits) {
  if (!limits.stop(0)) return;
  if (Interrupts::signal() != 0) throw Interrupted{Interrupts::signal()};
  isa::fail(isa::Rule::limit_reached,
            limits.reached() + " is reached before anything was simulated");
}

TraceFile read(const Args& args, const std::string& target, Limits& limits) {
  Progress progress("reading");
  return read_trace(
      required(args, "trace"),
      {.target = target,
       .allow_over_capacity = given(args, "allow-over-capacity") || given(args, "over-capacity"),
       .progress = [&](std::uint64_t done, std::uint64_t all) {
         go_on(limits);
         progress.update(done, all);
       }});
}

std::unique_ptr<isa::Memory> load_memory(const Args& args, const TraceFile& trace,
                                         const Limits& limits) {
  auto memory = std::make_unique<isa::Memory>(*trace.program);
  memory->limit(limits.memory_bytes());
  LoadOptions load;
  for (const std::string& root : texts(args, "root")) load.roots.emplace_back(root);
  if (given(args, "inputs")) {
    load.inputs = read_npz(text(args, "inputs"), input_room(*trace.program));
  }
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

// Undefined values in an output end the run; where only their order is undefined, it is said.
void undefined_output(const isa::Error& error, bool warning) {
  if (!warning) throw error;
  print_line(std::string("warning: ") + error.what());
}

// Whether to try the compiler's switches.
bool full_confidence(const Args& args) {
  const char* set = std::getenv("NKISIM_CONFIDENCE");
  std::string said = set != nullptr && *set != '\0' ? set : "quick";
  if (given(args, "confidence")) said = text(args, "confidence");
  if (said != "quick" && said != "full")
    usage(isa::Rule::option_value, "confidence is " + said + "; quick or full is required");
  return said == "full";
}

void try_switches(const Args& args, Limits& limits, const models::Config& config, Outcome& out) {
  if (!out.recorded || out.result.partial) return;
  Progress progress("trying the compiler's switches");
  out.origin.switches = nkisim::try_switches(out.trace, *out.recorded, compiler_options(args, true),
                                             config, [&] { return !limits.stop(0); });
  progress.clear();
}

void warn(const isa::Program& program, const std::vector<checks::Remark>& remarks) {
  for (const std::string& line : checks::remark_lines(program, remarks)) {
    log::warn(line);
  }
}

// A recorded program is compiled like a kernel, any other only as the switches say.
void compile(const Args& args, Outcome& out) {
  const bool full = full_confidence(args), open = out.trace.open;
  if (full && open) out.recorded = out.trace.program->version();
  const compiler::Compiled done = cli::compile(args, out.trace, out.trace.open);
  out.origin = origin_of(out.trace, done);
  if (full && !open) {
    out.origin.switches = SwitchRuns{.runs = {}, .why_not = "the program is compiled already"};
  }
  out.moved = done.changed("schedule");
  out.peaks = done.peaks;
}

// Programs that wait for themselves, and those of several cores, are checked before they run.
// Says what is wrong; throws the first race unless it is to be a warning.
checks::RaceReport check_races(const Args& args, Limits& limits, const Outcome& out) {
  const isa::Program& program = *out.trace.program;
  if (!checks::may_race(program)) return {};
  Progress progress("checking for races");
  isa::InterpretOptions options;
  options.unwritten = unwritten(args);
  options.stochastic_rounding = rounding_seed(args);
  options.progress = [&](std::uint64_t n) {
    progress.update(n, 0);
    return !limits.stop(n);
  };
  const checks::RaceReport found = checks::find_races(
      program, [&] { return load_memory(args, out.trace, limits); }, options);
  progress.clear();
  if (found.stopped) return {};  // the run ends at once and says so
  if (found.races.empty()) return found;
  if (!given(args, "allow-races")) {
    throw checks::race_error(program, found, out.trace.semaphore_names);
  }
  for (const std::string& line : race_lines(program, found, out.trace.semaphore_names)) {
    log::warn(line);
  }
  return found;
}

void run_functional(const Args& args, Limits& limits, Outcome& out) {
  Progress progress("executing");
  out.result.instructions = isa::interpret(*out.trace.program, *out.memory,
                                           {.unwritten = unwritten(args),
                                            .undefined_output = undefined_output,
                                            .print = print_line,
                                            .stochastic_rounding = rounding_seed(args),
                                            .progress = [&](std::uint64_t n) {
                                              progress.update(n, 0);
                                              out.result.partial = limits.stop(n);
                                              return !out.result.partial;
                                            }});
}

// Models know semaphores by number; here they have names, too.
isa::Error with_names(const isa::Error& error, const TraceFile& trace) {
  std::string text;
  const std::string& from = error.message();
  for (std::size_t at = 0; at < from.size();) {
    const std::size_t begin = from.find("S[", at), end = from.find(']', begin);
    if (end == std::string::npos) {
      text += from.substr(at);
      break;
    }
    text += from.substr(at, end + 1 - at);
    const std::string id = from.substr(begin + 2, end - begin - 2);
    at = end + 1;
    for (const auto& [number, name] : trace.semaphore_names) {
      if (std::to_string(number) == id) text += " (" + name + ")";
    }
  }
  isa::Error named(error.rule(), text);
  named.at(error.instruction(), error.loc());
  trace.program->locate(named);
  return named;
}

// What `run` gives; where it gets stuck, semaphores have names.
template <typename Run>
auto naming(const TraceFile& trace, const Run& run) {
  try {
    return run();
  } catch (const isa::Error& e) {
    if (e.rule() != isa::Rule::semaphore_deadlock) throw;
    throw with_names(e, trace);
  }
}

void run_timed(const Args& args, Limits& limits, Outcome& out) {
  const models::Config config = config_for(args, *out.trace.program);
  const std::uint64_t total = out.trace.program->insts().size();
  Progress progress("simulating");
  SimOptions sim{.timing_only = out.memory == nullptr,
                 .unwritten = unwritten(args),
                 .undefined_output = undefined_output,
                 .print = print_line,
                 .stochastic_rounding = rounding_seed(args)};
  out.reports = std::make_unique<Reports>(report_files(args));
  sim.observers.push_back(&out.summary);
  sim.observers.push_back(&out.confidence);
  out.reports->observe(sim.observers);
  sim.progress = [&](std::uint64_t n, models::Fs) {
    progress.update(std::min(n, total), total);
    return !limits.stop(n);
  };
  out.result = naming(out.trace,
                      [&] { return simulate(*out.trace.program, config, out.memory.get(), sim); });
  progress.clear();
  if (out.result.partial) limits.calm();
  try_switches(args, limits, config, out);
  MakeMemory fresh;  // a timing-only run needs none
  if (out.memory != nullptr) fresh = [&] { return load_memory(args, out.trace, limits); };
  const RunFacts facts{out.summary, out.result, out.confidence.json(out.origin, out.summary)};
  out.changes = finish_reports(args, *out.reports, config, facts, fresh, limits);
}

std::unique_ptr<Outcome> run_one(const Args& args, const std::string& target, Limits& limits) {
  std::vector<Budget> budgets;  // a bad one is said before the run
  for (const std::string& b : texts(args, "budget")) budgets.push_back(parse_budget(b));
  const auto started = std::chrono::steady_clock::now();
  auto out = std::make_unique<Outcome>();
  out->trace = read(args, target, limits);
  if (given(args, "recorded")) out->facts = recorded(out->trace, text(args, "recorded"));
  if (!given(args, "timing-only")) {  // without values none is lost
    warn(*out->trace.program, checks::written_remarks(*out->trace.program));
  }
  warn(*out->trace.program, checks::group_remarks(*out->trace.program, !out->trace.open));
  compile(args, *out);
  go_on(limits);
  const bool timing_only = given(args, "timing-only") || out->trace.program->timing_only();
  out->timed = !given(args, "functional");
  if (!out->timed && timing_only) {
    usage(isa::Rule::options_exclude,
          "--functional needs a trace with data and excludes --timing-only");
  }
  if (!out->timed && !budgets.empty())
    usage(isa::Rule::options_exclude, "--budget needs time; drop --functional");
  const checks::RaceReport found = check_races(args, limits, *out);
  out->world = ranks_of(args, *out->trace.program) != 1;
  if (out->world) return out;
  isa::check_world(*out->trace.program, {});
  if (!timing_only) out->memory = load_memory(args, out->trace, limits);
  if (out->timed)
    run_timed(args, limits, *out);
  else
    run_functional(args, limits, *out);
  out->stopped_by = limits.reached();
  limits.calm();
  // A timed run that gets stuck says so itself; this one came through by luck.
  if (!found.stuck.empty() && !given(args, "allow-races") && !out->result.partial) {
    throw checks::race_error(*out->trace.program, found, out->trace.semaphore_names);
  }
  out->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  conclude(args, budgets, *out);
  return out;
}

void print_row(const std::string& target, const Outcome& out) {
  const Totals totals(out.summary);
  std::ostringstream latency;
  latency << std::fixed << std::setprecision(3) << totals.latency_us() << " us";
  std::cout << std::left << std::setw(9) << target << std::setw(16) << latency.str()
            << totals.bottleneck() << '\n';
}

int run_targets(const Args& args, Limits& limits) {
  for (const char* one : {"perfetto", "chrome", "session", "html", "accounting-json", "outputs",
                          "summary-json", "junit", "explain", "functional"}) {
    if (given(args, one))
      usage(isa::Rule::options_exclude,
            "--targets prints one row per target; drop --" + std::string(one));
  }
  std::istringstream list(text(args, "targets"));
  const bool json = given(args, "json");
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) std::cout << "target   total_time      bottleneck\n";
  int code = kOk;
  for (std::string target; std::getline(list, target, ',');) {
    const auto out = run_one(args, target, limits);
    if (json)
      rows.push_back(to_json(*out));
    else
      print_row(target, *out);
    print_failures(args, *out);
    code = std::max(code, exit_code(*out));
    if (out->result.partial) break;
  }
  if (json)
    std::cout << nlohmann::ordered_json{{"ok", code == kOk}, {"targets", rows}}.dump(
                     1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << '\n';
  return code;
}

int run(const Args& args) {
  const Interrupts interrupts;
  check_result_options(args);
  Limits limits(args);
  if (given(args, "targets")) return run_targets(args, limits);
  const std::string config = text(args, "config");
  std::string target = text(args, "target");
  if (target.empty() && !config.empty()) target = load_config(config).target;
  const auto out = run_one(args, target, limits);
  if (out->world) {
    return naming(out->trace, [&] { return run_ranks(args, limits, *out); });
  }
  print_result(args, *out);
  return exit_code(*out);
}

}  // namespace of_run
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
      "partial, and the exit code is 130 (SIGTERM: 143). A second Ctrl-C ends at once. A run that\n"
      "reaches --max-time, --max-instructions or --max-memory ends the same way, with code 3.\n",
      of_run::options,
      of_run::run};
  return kCommand;
}

}  // namespace nkisim::cli
