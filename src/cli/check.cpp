// Implements `nkisim check`, which reads and checks a file of instructions (trace) without running
// it.
#include <iostream>

#include "checks/groups.hpp"
#include "checks/statics.hpp"
#include "isa/program/world.hpp"
#include "src/cli/command.hpp"
#include "src/cli/compile_options.hpp"
#include "src/cli/interrupt.hpp"
#include "src/cli/limits.hpp"
#include "src/cli/options.hpp"
#include "src/cli/progress.hpp"
#include "src/cli/python_command.hpp"
#include "src/cli/rule_options.hpp"
#include "src/job/job.hpp"
#include "src/log/log.hpp"
#include "src/report/report.hpp"
#include "src/run/run.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_check {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "check");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

// All refusals but the last are said here; the last one ends the command as any error does.
void check_release(const isa::Program& program, const std::string& sdk) {
  const std::vector<isa::Error> found = refusals(program, parse_release(sdk));
  for (std::size_t i = 0; i + 1 < found.size(); ++i) std::cerr << found[i].what() << '\n';
  if (!found.empty()) throw found.back();
}

// Without --strict the same are warnings, where somebody asked for a release.
void report_release(const isa::Program& program, const std::string& sdk,
                    nlohmann::ordered_json& json) {
  for (const isa::Error& e : refusals(program, parse_release(sdk))) {
    log::warn(std::string(e.what()) + " [" + std::string(isa::name(e.rule())) + "]");
    json.push_back({{"error", false},
                    {"line", e.loc().trace_line},
                    {"text", e.what()},
                    {"rule", isa::name(e.rule())}});
  }
}

// Ends the command where a limit is reached: what was looked at by then says nothing of the rest.
void go_on(Limits& limits) {
  if (Interrupts::signal() != 0) throw Interrupted{Interrupts::signal()};
  if (limits.stop(0)) {
    isa::fail(isa::Rule::limit_reached, limits.reached() + " is reached before all was checked");
  }
}

checks::RaceReport races(const Args& args, TraceFile& trace, Limits& limits) {
  Progress progress("checking for races");
  if (trace.open) cli::compile(args, trace, true);
  const auto load = [&]() -> std::unique_ptr<isa::Memory> {
    auto memory = std::make_unique<isa::Memory>(*trace.program);
    memory->limit(limits.memory_bytes());
    LoadOptions inputs;
    for (const std::string& root : texts(args, "root")) inputs.roots.emplace_back(root);
    if (given(args, "inputs")) {
      inputs.inputs = read_npz(text(args, "inputs"), input_size_limit(*trace.program));
    }
    load_inputs(trace, *memory, inputs);
    return memory;
  };
  isa::InterpretOptions options;
  options.conditions.unwritten = isa::Unwritten::kAllow;
  options.progress = [&](std::uint64_t n) {
    progress.update(n, 0);
    return !limits.stop(n);
  };
  checks::RaceReport found = checks::find_races(*trace.program, load, options);
  progress.clear();
  if (found.stopped) go_on(limits);
  return found;
}

// Prints a line for each race on standard error, or one object with --json.
int report_races(const Args& args, const TraceFile& trace, const checks::RaceReport& found) {
  const int code = found.clean() ? kOk : kBadInput;
  if (wants_json(args)) {
    nlohmann::ordered_json j = {{"ok", code == kOk}, {"exit_code", code}};
    j.update(race_json(*trace.program, found, trace.semaphore_names));
    std::cout << j.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  }
  for (const std::string& line : race_lines(*trace.program, found, trace.semaphore_names)) {
    std::cerr << "nkisim: " << line << '\n';
  }
  if (!wants_json(args) && code == kOk) {
    std::cout << trace.program->trace_file() << ": no races in " << (found.cut ? "the first " : "")
              << found.steps << " instructions executed\n";
  }
  return code;
}

// Remarks on standard error and into `json`; true if there is an error.
bool report(const isa::Program& program, const std::vector<checks::Remark>& remarks,
            const isa::RulePolicy& policy, nlohmann::ordered_json& json) {
  bool wrong = false;
  for (const isa::Error& e : checks::located(program, remarks)) {
    const isa::Level level = policy.of(e.rule());
    if (level == isa::Level::kOff) continue;
    const bool error = level == isa::Level::kError;
    const std::string_view rule = isa::name(e.rule());
    if (error) {
      std::cerr << "nkisim: " << e.what() << '\n';
    } else {
      log::warn(std::string(e.what()) + " [" + std::string(rule) + "]");
    }
    json.push_back(
        {{"error", error}, {"line", e.loc().trace_line}, {"text", e.what()}, {"rule", rule}});
    wrong = wrong || error;
  }
  return wrong;
}

int run(const Args& args) {
  if (given(args, "migrate")) {
    std::vector<std::string> words = {"--to", text(args, "migrate"), required(args, "trace")};
    if (wants_json(args)) words.emplace_back("--json");
    return call_module("nkisim.tools.migrate", words);
  }
  const Interrupts interrupts;
  const Job::Most most = most_of(args);
  const Watch watch(most);
  Limits limits(most, [] { return Interrupts::signal() != 0; });
  Progress progress("checking");
  ReadOptions read{.target = args.count("target") != 0 ? args["target"].as<std::string>() : "",
                   .machine = {},
                   .allow_over_capacity = args.count("over-capacity") != 0,
                   .progress = [&](std::uint64_t done, std::uint64_t total) {
                     go_on(limits);
                     progress.update(done, total);
                   }};
  TraceFile trace =
      read_for(required(args, "trace"), read, text(args, "config"), texts(args, "set"));
  progress.clear();
  if (given(args, "races")) return report_races(args, trace, races(args, trace, limits));
  nlohmann::ordered_json remarks = nlohmann::ordered_json::array();
  isa::RuleChoices wishes = rule_choices(args);
  wishes.strict = given(args, "strict");
  const isa::RulePolicy policy(wishes);
  bool wrong =
      report(*trace.program, checks::lost_remarks(*trace.program, policy.looks_for_unread()),
             policy, remarks);
  wrong |= report(*trace.program, checks::written_remarks(*trace.program), policy, remarks);
  if (trace.open) cli::compile(args, trace, true);  // whether all that is live at once fits
  const isa::Program& p = *trace.program;
  isa::check_partners(p);
  checks::check_state(p);
  if (given(args, "strict")) {
    check_release(p, text(args, "sdk"));
  } else if (!args["sdk"].defaulted()) {
    report_release(p, text(args, "sdk"), remarks);
  }
  wrong |= report(p, checks::static_remarks(p, trace.semaphore_names), policy, remarks);
  wrong |= report(p, checks::group_remarks(p, !trace.open), policy, remarks);
  if (wants_json(args)) {
    print_json({{"ok", !wrong},
                {"file", p.trace_file()},
                {"target", p.machine().target},
                {"tensors", p.tensors().size()},
                {"instructions", p.insts().size()},
                {"cores", p.cores()},
                {"explicit_semaphores", p.explicit_semaphores()},
                {"remarks", remarks}});
  } else if (!wrong) {
    std::cout << p.trace_file() << ": ok, " << p.insts().size() << " instructions, "
              << p.tensors().size() << " tensors, " << p.machine().target
              << (p.explicit_semaphores() ? ", explicit semaphores" : "") << '\n';
  }
  return wrong ? kBadInput : kOk;
}

}  // namespace of_check
}  // namespace

const Command& check_command() {
  static const Command kCommand = {
      "check",
      "check a trace without running it",
      "nkisim check TRACE [options]\n       nkisim check --migrate RELEASE KERNELS.py",
      "  nkisim check k.nisa --strict --sdk 2.29\n"
      "  nkisim check --migrate 2.33 kernels.py\n"
      "  nkisim check traces/semaphores.jsonl --races\n",
      "",
      of_check::options,
      of_check::run};
  return kCommand;
}

}  // namespace nkisim::cli
