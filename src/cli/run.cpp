// nkisim run: simulates a trace, values and time. Options become a Job; its Outcome is printed.
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "src/cli/command.hpp"
#include "src/cli/compile_options.hpp"
#include "src/cli/interrupt.hpp"
#include "src/cli/limits.hpp"
#include "src/cli/progress.hpp"
#include "src/cli/rule_options.hpp"
#include "src/cli/run_reports.hpp"
#include "src/cli/run_result.hpp"
#include "src/job/job.hpp"
#include "src/log/log.hpp"

namespace nkisim::cli {
namespace {
namespace of_run {

namespace po = boost::program_options;

void add_world_options(po::options_description& named) {
  auto add = named.add_options();
  add("ranks", po::value<int>(),
      "run this many ranks (default: as the trace says); {rank} in the names of --inputs, "
      "--expect, "
      "--outputs and report files stands for the rank");
  add("ring-order", po::value<std::string>()->default_value("group"),
      "how implicit permutes go round a group: group, reverse or shuffle:SEED");
  add("any-world",
      "take what the device refuses: any number of ranks, groups of one, inputs and "
      "outputs as operands of collectives");
  add("no-fold", "simulate every rank, also those that cannot differ");
}

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
  add_rule_options(named);
  add_result_options(named);
  add_report_options(named);
  add_world_options(named);
  add_limit_options(named);
  add("quiet,q", "print nothing but errors, warnings and differences");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
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

Job job_of(const Args& args, const std::string& target) {
  Job job{.trace = required(args, "trace"),
          .target = target,
          .config = text(args, "config"),
          .set = texts(args, "set"),
          .switches = chosen_switches(args),
          .over_capacity = given(args, "allow-over-capacity") || given(args, "over-capacity"),
          .ring_order = text(args, "ring-order"),
          .any_world = given(args, "any-world"),
          .fold = !given(args, "no-fold"),
          .values = !given(args, "timing-only"),
          .time = !given(args, "functional"),
          .full_confidence = full_confidence(args),
          .recorded = text(args, "recorded"),
          .inputs = text(args, "inputs"),
          .roots = texts(args, "root"),
          .outputs = text(args, "outputs"),
          .expect = text(args, "expect"),
          .expect_subset = given(args, "expect-subset"),
          .tolerance = tolerance(args),
          .budgets = texts(args, "budget"),
          .allow_unwritten = given(args, "allow-unwritten"),
          .allow_races = given(args, "allow-races"),
          .rules = rule_wishes(args),
          .most = most_of(args),
          .summary_json = text(args, "summary-json"),
          .html = text(args, "html"),
          .reports = report_files(args)};
  if (given(args, "ranks")) job.ranks = args["ranks"].as<int>();
  if (given(args, "stochastic-rounding")) {
    job.stochastic_rounding = args["stochastic-rounding"].as<std::uint32_t>();
  }
  return job;
}

// Tells the person in front of a terminal.
class Teller : public Listener {
 public:
  Teller(const Args& args, const Job& job) : args_(args), watch_(job.most) {}

  void warn(const std::string& text) override { log::warn(text); }
  void print(const std::string& line) override { std::cerr << line << '\n'; }
  void undefined(const std::string& text) override { std::cerr << "warning: " << text << '\n'; }
  void overflow(const std::string& text) override {
    std::cerr << "nkisim: " << text
              << "\nnkisim: running over capacity (the legacy compiler would spill)\n";
  }
  void progress(const char* stage, std::uint64_t done, std::uint64_t all) override {
    if (stage != stage_) {
      bar_.emplace(stage);
      stage_ = stage;
    }
    bar_->update(done, all);
  }
  void stage_ended() override {
    bar_.reset();
    stage_ = nullptr;
  }
  void prepared(int ranks) override {
    if (ranks == 1 || !given(args_, "summary-text")) return;
    usage(isa::Rule::options_exclude,
          "several ranks have no --summary-text; --summary-json 'NAME.{rank}.json' has the "
          "metrics");
  }
  void simulated() override { watch_.calm(); }
  int signal() override { return Interrupts::signal(); }
  void page(const std::string& html, const std::string& session,
            const std::function<void(const std::string&)>& write) override {
    write_page(html, session, write);
  }

 private:
  const Args& args_;
  Watch watch_;
  const char* stage_ = nullptr;
  std::optional<Progress> bar_;
};

// What is left of the run in `ran` is about a program of `programs`.
Outcome run_one(const Args& args, const std::string& target, Programs& programs, Ran& ran) {
  const Job job = job_of(args, target);
  Teller teller(args, job);
  Outcome out = nkisim::run(job, teller, ran, programs);
  if (given(args, "junit")) write_junit(args, out);
  return out;
}

void print_row(const std::string& target, const Outcome& out) {
  std::ostringstream latency;
  latency << std::fixed << std::setprecision(3) << out.totals.at("latency_us").get<double>()
          << " us";
  std::cout << std::left << std::setw(9) << target << std::setw(16) << latency.str()
            << out.totals.at("bottleneck").get<std::string>() << '\n';
}

int run_targets(const Args& args) {
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
    Programs programs;
    Ran ran;
    const Outcome out = run_one(args, target, programs, ran);
    if (json)
      rows.push_back(to_json(out));
    else
      print_row(target, out);
    print_failures(args, out);
    code = std::max(code, out.exit_code);
    if (out.partial) break;
  }
  if (json)
    std::cout << nlohmann::ordered_json{{"ok", code == kOk}, {"targets", rows}}.dump(
                     1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << '\n';
  return code;
}

int run(const Args& args) {
  const Interrupts interrupts;
  if (given(args, "targets")) return run_targets(args);
  Programs programs;
  Ran ran;
  const Outcome out = run_one(args, text(args, "target"), programs, ran);
  print_result(args, out, ran);
  return out.exit_code;
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
