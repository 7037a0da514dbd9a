// Implements `nkisim run`, which simulates a file of instructions (trace): outputs, latency,
// reports.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "src/cli/command.hpp"
#include "src/cli/compile_options.hpp"
#include "src/cli/interrupt.hpp"
#include "src/cli/limits.hpp"
#include "src/cli/options.hpp"
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

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "run");
  add_compiler_options(named);
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

// True if the compiler's switches are to be tried.
bool full_confidence(const Args& args) {
  const char* set = std::getenv("NKISIM_CONFIDENCE");
  std::string said = set != nullptr && *set != '\0' ? set : "quick";
  if (given(args, "confidence")) said = text(args, "confidence");
  if (said != "quick" && said != "full")
    usage(isa::Rule::option_value, "confidence is " + said + "; quick or full is required");
  return said == "full";
}

// "x,y" as a list.
std::vector<std::string> names(const std::string& list) {
  std::vector<std::string> all;
  std::istringstream in(list);
  for (std::string name; std::getline(in, name, ',');) {
    if (!name.empty()) all.push_back(name);
  }
  return all;
}

// True if something says the bottleneck or the trust; --quiet alone says neither.
bool says_reasons(const Args& args) {
  const auto is_given = [&args](const char* one) { return given(args, one); };
  constexpr std::array kSaid = {"json", "explain", "session", "html", "targets", "confidence"};
  return !given(args, "quiet") || std::any_of(kSaid.begin(), kSaid.end(), is_given);
}

Job job_of(const Args& args, const std::string& target) {
  Job job{.trace = required(args, "trace"),
          .target = target,
          .config = text(args, "config"),
          .set = texts(args, "set"),
          .switches = chosen_switches(args),
          .over_capacity = given(args, "over-capacity"),
          .ring_order = text(args, "ring-order"),
          .any_world = given(args, "any-world"),
          .fold = !given(args, "no-fold"),
          .values = !given(args, "timing-only"),
          .time = !given(args, "functional"),
          .reasons = says_reasons(args),
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
          .rules = rule_choices(args),
          .most = most_of(args),
          .stop = {.at = text(args, "stop-at"), .dump = names(text(args, "dump"))},
          .dump_to = text(args, "dump-to"),
          .summary_json = text(args, "summary-json"),
          .html = text(args, "html"),
          .reports = report_files(args)};
  if (given(args, "ranks")) job.ranks = args["ranks"].as<int>();
  if (given(args, "stochastic-rounding")) {
    job.stochastic_rounding = args["stochastic-rounding"].as<std::uint32_t>();
  }
  return job;
}

// Reports to a person at a terminal.
class ConsoleListener : public RunListener {
 public:
  ConsoleListener(const Args& args, const Job& job) : args_(args), watch_(job.most) {}

  void warn(const std::string& text) override { log::warn(text); }
  void print(const std::string& line) override { std::cerr << line << '\n'; }
  void undefined(const std::string& text) override { std::cerr << "warning: " << text << '\n'; }
  void stopped(const nlohmann::ordered_json& stop) override {
    if (given(args_, "json")) return;
    for (std::size_t r = 0; r < stop.at("ranks").size(); ++r) std::cout << stop_text(stop, r);
  }
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
  void simulated() override { watch_.disarm(); }
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

// Runs one job. `artifacts` point into a program of `programs`, which must outlive them.
Outcome run_one(const Args& args, const std::string& target, Programs& programs,
                RunArtifacts& artifacts) {
  const Job job = job_of(args, target);
  ConsoleListener listener(args, job);
  Outcome out = nkisim::run(job, listener, artifacts, programs);
  if (given(args, "junit")) write_junit(args, out);
  return out;
}

void print_row(const std::string& target, const Outcome& out) {
  std::cout << std::left << std::setw(9) << target << std::setw(16)
            << time_text(out.totals.at("latency_us").get<double>())
            << out.totals.at("bottleneck").get<std::string>() << '\n';
}

int run_targets(const Args& args) {
  for (const char* one : {"perfetto", "chrome", "vcd", "session", "html", "accounting-json",
                          "outputs", "summary-json", "junit", "explain", "functional", "stop-at"}) {
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
    RunArtifacts artifacts;
    const Outcome out = run_one(args, target, programs, artifacts);
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
  RunArtifacts artifacts;
  const Outcome out = run_one(args, text(args, "target"), programs, artifacts);
  print_result(args, out, artifacts);
  return out.exit_code;
}

}  // namespace of_run
}  // namespace

const Command& run_command() {
  static const Command kCommand = {
      "run",
      "simulate a trace: values, latency, profile",
      "nkisim run TRACE [options]",
      "  nkisim run traces/softmax.jsonl --expect traces/softmax.npz\n"
      "  nkisim run k.nisa --explain --html k.html\n"
      "  nkisim run k.nisa --set dma.bytes_per_ns=54.4 --timing-only\n",
      "{rank} in the names of --inputs, --expect, --outputs and reports stands for the rank.\n"
      "Ctrl-C ends a run early: every report is written of what ran until then, says that it is\n"
      "partial, and the exit code is 130 (SIGTERM: 143). A second Ctrl-C ends at once. A run that\n"
      "reaches --max-time, --max-instructions or --max-memory ends the same way, with code 3.\n",
      of_run::options,
      of_run::run};
  return kCommand;
}

}  // namespace nkisim::cli
