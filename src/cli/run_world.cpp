#include "src/cli/run_world.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <set>
#include <sstream>

#include "src/cli/compile_options.hpp"
#include "src/cli/interrupt.hpp"
#include "src/cli/progress.hpp"
#include "src/cli/run_reports.hpp"
#include "src/config/config.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

constexpr std::string_view kRank = "{rank}";

// What one rank came to.
struct RankOutcome {
  Confidence confidence = {};
  Summary summary;
  std::unique_ptr<Reports> reports;
  std::vector<Comparison> outputs;
  std::vector<std::string> left_out;
};

// "out.{rank}.npz" for one rank.
std::string for_rank(std::string name, std::size_t rank) {
  for (std::size_t at = name.find(kRank); at != std::string::npos; at = name.find(kRank)) {
    name.replace(at, kRank.size(), std::to_string(rank));
  }
  return name;
}

std::string bytes_of(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) isa::fail(isa::Rule::file_unreadable, "cannot read " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A file that every rank writes needs a name for each.
void require_rank(const Args& args, const char* option) {
  if (!given(args, option) || text(args, option).find(kRank) != std::string::npos) return;
  usage(isa::Rule::option_value,
        "--" + std::string(option) + " is " + text(args, option) +
            ", one file for all ranks; a name with {rank} in it is required");
}

void check_options(const Args& args) {
  if (given(args, "summary-text")) {
    usage(
        isa::Rule::options_exclude,
        "several ranks have no --summary-text; --summary-json 'NAME.{rank}.json' has the metrics");
  }
  for (const char* one :
       {"outputs", "summary-json", "accounting-json", "session", "perfetto", "chrome", "html"}) {
    require_rank(args, one);
  }
}

void load(const Args& args, const Limits& limits, const TraceFile& trace,
          std::vector<std::unique_ptr<isa::Memory>>& memories) {
  LoadOptions options{.folder = trace.folder};
  for (const std::string& root : texts(args, "root")) options.roots.emplace_back(root);
  const std::string inputs = text(args, "inputs");
  for (const auto& memory : memories) memory->limit(limits.memory_bytes());
  if (inputs.find(kRank) == std::string::npos) {
    if (!inputs.empty()) options.inputs = read_npz(inputs, input_room(*trace.program));
    load_ranks(*trace.program, trace.data, memories, options);
    return;
  }
  for (std::size_t r = 0; r < memories.size(); ++r) {
    options.rank = static_cast<int>(r);
    options.inputs = read_npz(for_rank(inputs, r), input_room(*trace.program));
    load_inputs(*trace.program, trace.data, *memories[r], options);
  }
}

// Ranks whose inputs are the same bytes have one number.
int input_class(const Args& args, const TraceFile& trace, std::size_t rank) {
  bool differs = text(args, "inputs").find(kRank) != std::string::npos;
  for (const DataSource& source : trace.data) differs = differs || differs_by_rank(source);
  return differs ? static_cast<int>(rank) + 1 : 1;
}

ReportFiles files_of(const Args& args, std::size_t rank) {
  ReportFiles files = report_files(args);
  for (std::string* name :
       {&files.accounting_json, &files.session, &files.perfetto, &files.chrome}) {
    *name = for_rank(*name, rank);
  }
  return files;
}

void compare_rank(const Args& args, const TraceFile& trace, isa::Memory& memory, std::size_t rank,
                  RankOutcome& out) {
  if (given(args, "outputs")) {
    write_npz(for_rank(text(args, "outputs"), rank), output_arrays(*trace.program, memory));
  }
  if (!given(args, "expect")) return;
  const auto golden = read_golden(*trace.program, for_rank(text(args, "expect"), rank));
  out.outputs = compare(*trace.program, memory, golden, tolerance(args));
  if (!given(args, "expect-subset")) out.left_out = left_out(*trace.program, golden);
}

bool passes(const RankOutcome& rank) { return rank.left_out.empty() && all_match(rank.outputs); }

Json to_json(const RankOutcome& rank, const SimResult& result, bool timed) {
  Json j = {{"instructions", result.instructions}};
  if (timed) {
    j["summary"] = rank.summary.json();
    j["latency_us"] = in_seconds(latency(rank.summary)) * 1e6;
  }
  for (const Comparison& row : rank.outputs) {
    j["outputs"].push_back(
        {{"output", row.tensor}, {"equal", row.equal}, {"mismatches", row.mismatches}});
  }
  if (!rank.left_out.empty()) j["not_compared"] = rank.left_out;
  return j;
}

std::string differing(const Comparison& row) {
  std::ostringstream text;
  text << row.mismatches << " of " << row.elements << " elements differ; worst at " << row.worst
       << ": got " << row.got << ", expected " << row.expected;
  return text.str();
}

void print_difference(std::size_t rank, const RankOutcome& out) {
  for (const Comparison& row : out.outputs) {
    if (row.equal) continue;
    std::cerr << "rank " << rank << ": output " << row.tensor << ": " << differing(row) << '\n';
  }
  for (const std::string& name : out.left_out) {
    std::cerr << "rank " << rank << ": output " << name
              << ": not compared, --expect has no array of this name\n";
  }
}

// The metrics of all cores of all ranks: {"nc_0 of rank 0": {...}, ...}.
Json metrics_of(const std::vector<RankOutcome>& ranks) {
  Json all;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Json cores = ranks[r].summary.json();
    for (const auto& [core, metrics] : cores.items()) {
      all[core + " of rank " + std::to_string(r)] = metrics;
    }
  }
  return all;
}

std::vector<TestCase> test_cases(const std::vector<RankOutcome>& ranks) {
  std::vector<TestCase> cases;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::string lead = "rank " + std::to_string(r) + ": output ";
    for (const std::string& name : ranks[r].left_out) {
      cases.push_back({lead + name, false, "not compared, --expect has no array of this name"});
    }
    for (const Comparison& row : ranks[r].outputs) {
      cases.push_back({lead + row.tensor, row.equal, differing(row)});
    }
  }
  return cases;
}

Totals totals_of(const std::vector<RankOutcome>& ranks) {
  std::vector<const Summary*> summaries;
  for (const RankOutcome& r : ranks) summaries.push_back(&r.summary);
  return Totals(summaries);
}

void print(const Args& args, const WorldResult& result, const std::vector<RankOutcome>& ranks,
           bool timed) {
  for (std::size_t r = 0; r < ranks.size(); ++r) print_difference(r, ranks[r]);
  if (given(args, "quiet")) return;
  if (timed) {
    std::cout << "rank  latency\n";
    const auto row = [](const auto& rank, double us) {
      std::cout << std::left << std::setw(6) << rank << std::fixed << std::setprecision(3) << us
                << " us\n";
    };
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      row(r, in_seconds(latency(ranks[r].summary)) * 1e6);
    }
    const Totals totals = totals_of(ranks);
    row("all", totals.latency_us());
    std::cout << "bottleneck   " << totals.bottleneck() << '\n';
  }
  std::uint64_t instructions = 0;
  for (const SimResult& r : result.ranks) instructions += r.instructions;
  const std::set<int> simulated(result.timed_as.begin(), result.timed_as.end());
  std::cout << instructions << " instructions executed by " << ranks.size() << " ranks";
  if (timed && simulated.size() < ranks.size()) {
    std::cout << ", of which " << simulated.size() << " was simulated in time for all";
  }
  std::cout << '\n';
}

// One run of several ranks, step by step.
class Run {
 public:
  Run(const Args& args, Limits& limits, Outcome& out)
      : args_(args), limits_(limits), out_(out), program_(*out.trace.program) {
    check_options(args);
    for (const std::string& b : texts(args, "budget")) wanted_.push_back(parse_budget(b));
    options_.timed = !given(args, "functional");
    options_.fold = !given(args, "no-fold");
    options_.world.ranks = ranks_of(args, program_);
    options_.world.ring = isa::parse_ring_order(text(args, "ring-order"));
    options_.world.any_shape = given(args, "any-world");
    isa::check_world(program_, options_.world);
    timing_only_ = given(args, "timing-only") || program_.timing_only();
    if (timing_only_ && !options_.timed)
      usage(isa::Rule::options_exclude, "--functional excludes --timing-only");
    if (timing_only_ && (given(args, "outputs") || given(args, "expect"))) {
      usage(isa::Rule::options_exclude, "--outputs and --expect need values; drop --timing-only");
    }
    ranks_ = std::vector<RankOutcome>(static_cast<std::size_t>(options_.world.ranks));
  }

  int run() {
    for (std::size_t r = 0; r < ranks_.size() && !timing_only_; ++r) {
      memories_.push_back(std::make_unique<isa::Memory>(program_));
    }
    if (!timing_only_) load(args_, limits_, out_.trace, memories_);
    Progress progress("simulating");
    std::vector<RankInput> inputs;
    for (std::size_t r = 0; r < ranks_.size(); ++r) inputs.push_back(input(r, progress));
    result_ = run_world(inputs, config_for(args_, program_), options_);
    progress.clear();
    for (const SimResult& r : result_.ranks) partial_ = partial_ || r.partial;
    out_.stopped_by = limits_.reached();
    limits_.calm();
    note_world();
    for (std::size_t r = 0; r < ranks_.size(); ++r) conclude(r);
    if (!wanted_.empty()) {
      const Json metrics = metrics_of(ranks_);
      const Totals totals = totals_of(ranks_);
      for (const Budget& b : wanted_) {
        budgets_.push_back(check_budget(b, metrics, totals.metrics()));
      }
    }
    if (given(args_, "junit")) write_junit();
    const int code = exit_code();
    if (given(args_, "json")) {
      print_json(code);
      return code;
    }
    if (partial_) std::cerr << "nkisim: stopped early; every report is of what ran until then\n";
    print(args_, result_, ranks_, options_.timed);
    print_budgets(budgets_, given(args_, "quiet"));
    if (given(args_, "explain") && options_.timed)
      print_world(std::cout, accountings_, latencies());
    return code;
  }

 private:
  RankInput input(std::size_t rank, Progress& progress) {
    RankInput input{.program = &program_,
                    .memory = timing_only_ ? nullptr : memories_[rank].get(),
                    .options = {},
                    .inputs = input_class(args_, out_.trace, rank)};
    SimOptions& sim = input.options;
    const std::string lead = "rank " + std::to_string(rank) + ": ";
    if (given(args_, "allow-unwritten")) sim.unwritten = isa::Unwritten::kAllow;
    sim.undefined_output = [lead](const isa::Error& error, bool warning) {
      if (!warning) throw error;
      std::cerr << "warning: " << lead << error.what() << '\n';
    };
    sim.print = [lead](const std::string& line) { std::cerr << lead << line << '\n'; };
    if (given(args_, "stochastic-rounding")) {
      sim.stochastic_rounding = args_["stochastic-rounding"].as<std::uint32_t>();
    }
    sim.progress = [this, &progress](std::uint64_t done, models::Fs) {
      progress.update(done, 0);
      return !limits_.stop(done);
    };
    if (!options_.timed) return input;
    input.observe = [this, rank] {
      RankOutcome& out = ranks_[rank];
      out.summary = Summary();
      out.confidence = Confidence();
      out.reports.reset();
      out.reports = std::make_unique<Reports>(files_of(args_, rank));
      std::vector<models::Observer*> observers = {&out.summary, &out.confidence};
      out.reports->observe(observers);
      return observers;
    };
    return input;
  }

  // What only all ranks together show.
  void note_world() {
    if (!options_.timed ||
        (!given(args_, "explain") && !given(args_, "html") && text(args_, "session").empty())) {
      return;
    }
    for (const RankOutcome& r : ranks_) {
      accountings_.push_back(r.reports == nullptr ? nullptr : r.reports->accounting());
    }
    world_ = world_facts(accountings_, result_.timed_as);
  }

  [[nodiscard]] std::vector<models::Fs> latencies() const {
    std::vector<models::Fs> all;
    for (const RankOutcome& r : ranks_) all.push_back(latency(r.summary));
    return all;
  }

  // What one rank stands for is written under each rank's name.
  void write_reports(std::size_t rank, std::size_t as) {
    RankOutcome& out = ranks_[as];
    if (out.reports == nullptr) return;
    const ReportFiles files = files_of(args_, rank), same = files_of(args_, as);
    if (as == rank) {
      out.reports->write_files();
    } else {
      for (const auto& [name, from] : {std::pair{files.accounting_json, same.accounting_json},
                                       {files.perfetto, same.perfetto},
                                       {files.chrome, same.chrome}}) {
        if (!name.empty()) write_text(name, bytes_of(from));
      }
    }
    const auto write = [&](const std::string& name) {
      world_["rank"] = rank;
      const ProgramOrigin origin{
          .kernel = out_.trace.recorded, .legacy = out_.trace.legacy, .alone = false};
      const Json trust = out.confidence.json(origin, out.summary);
      out.reports->write_session(name, {out.summary, result_.ranks[rank], trust, &world_}, {});
    };
    if (!files.session.empty()) write(files.session);
    const std::string html = for_rank(text(args_, "html"), rank);
    if (!html.empty()) write_page(html, files.session, write);
  }

  // Reports and comparisons of one rank.
  void conclude(std::size_t rank) {
    RankOutcome& out = ranks_[rank];
    const auto as = static_cast<std::size_t>(result_.timed_as[rank]);
    write_reports(rank, as);
    if (as != rank) out.summary = ranks_[as].summary;
    if (given(args_, "summary-json") && options_.timed) {
      write_text(for_rank(text(args_, "summary-json"), rank), out.summary.json().dump(1) + "\n");
    }
    if (timing_only_ || partial_) return;
    const auto values = static_cast<std::size_t>(result_.values_of[rank]);
    compare_rank(args_, out_.trace, *memories_[values], rank, out);
  }

  [[nodiscard]] int exit_code() const {
    if (Interrupts::signal() != 0) return kSignalled + Interrupts::signal();
    if (!out_.stopped_by.empty()) return kBadInput;
    const bool kept =
        std::all_of(budgets_.begin(), budgets_.end(), [](const BudgetResult& b) { return b.kept; });
    return kept && std::all_of(ranks_.begin(), ranks_.end(), passes) ? kOk : kDiffers;
  }

  void write_junit() const {
    std::vector<TestCase> cases = test_cases(ranks_);
    if (partial_) {
      const std::string& limit = out_.stopped_by;
      cases.push_back(
          {"run", false, limit.empty() ? "the run was interrupted" : limit + " was reached"});
    }
    for (const BudgetResult& b : budgets_) {
      cases.push_back({"budget " + b.budget.text, b.kept, b.message});
    }
    if (cases.empty()) cases.push_back({"run", true, ""});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started_;
    write_text(text(args_, "junit"),
               junit_xml("nkisim run " + text(args_, "trace"), cases, took.count()));
  }

  void print_json(int code) const {
    Json all = {{"ok", code == kOk},
                {"exit_code", code},
                {"partial", partial_},
                {"target", program_.machine().target},
                {"ranks", Json::array()}};
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      all["ranks"].push_back(to_json(ranks_[r], result_.ranks[r], options_.timed));
    }
    if (options_.timed) totals_of(ranks_).put(all);
    for (const BudgetResult& b : budgets_) all["budgets"].push_back(nkisim::to_json(b));
    std::cout << all.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
    print_budgets(budgets_, true);
  }

  const Args& args_;
  Limits& limits_;
  Outcome& out_;
  const isa::Program& program_;
  WorldOptions options_;
  bool timing_only_ = false, partial_ = false;
  std::vector<std::unique_ptr<isa::Memory>> memories_;
  std::vector<RankOutcome> ranks_;
  std::vector<Budget> wanted_;
  std::vector<BudgetResult> budgets_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  WorldResult result_;
  std::vector<const Accounting*> accountings_;
  Json world_;
};

}  // namespace

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

int ranks_of(const Args& args, const isa::Program& program) {
  return given(args, "ranks") ? args["ranks"].as<int>() : program.ranks();
}

int run_ranks(const Args& args, Limits& limits, Outcome& out) {
  return Run(args, limits, out).run();
}

}  // namespace nkisim::cli
