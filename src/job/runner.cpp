// Runs one job (a run described as data): prepares, checks, simulates and reports it.

#include "src/job/runner.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "checks/statics.hpp"
#include "src/files/file_roles.hpp"

namespace nkisim {
namespace {
namespace of_runner {

using Json = nlohmann::ordered_json;

void usage(isa::Rule rule, const std::string& message) { throw isa::Error(rule, message); }

// A file that a job writes, one for each rank, and its option.
struct Output {
  std::string option;
  std::string* name;
};

std::vector<Output> outputs_of(ReportFiles& files) {
  return {{"--accounting-json", &files.accounting_json},
          {"--session", &files.session},
          {"--perfetto", &files.perfetto},
          {"--chrome", &files.chrome},
          {"--vcd", &files.vcd}};
}

std::vector<Output> outputs_of(Job& job) {
  std::vector<Output> all = {{"--outputs", &job.outputs},
                             {"--summary-json", &job.summary_json},
                             {"--html", &job.html},
                             {"--dump-to", &job.dump_to}};
  for (Output& output : outputs_of(job.reports)) all.push_back(std::move(output));
  return all;
}

// Files of a job that every rank writes need a name for each.
void require_rank_names(Job job) {
  for (const auto& [option, file] : outputs_of(job)) {
    const std::string& name = *file;
    if (name.empty() || name.find("{rank}") != std::string::npos) continue;
    usage(isa::Rule::option_value, option + " is " + name +
                                       ", one file for all ranks; a name with {rank} in it is "
                                       "required");
  }
}

// Files that a job reads, those that its trace names among them, and those that it writes.
void require_files_apart(Job job, const TraceFile& trace, int ranks) {
  std::vector<NamedFile> read = {{"the run", job.trace}}, written;
  std::set<std::pair<std::string, std::string>> seen;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const auto put = [&](std::vector<NamedFile>& to, const std::string& option,
                         const std::string& name) {
      const std::string path = for_rank(name, at);
      if (!path.empty() && seen.emplace(option, path).second) to.push_back({option, path});
    };
    for (const DataSource& source : trace.data) {
      if (!source.file.empty()) put(read, "the trace", (trace.folder / source.file).string());
    }
    put(read, "--inputs", job.inputs);
    put(read, "--expect", job.expect);
    put(read, "--recorded", job.recorded);
    put(read, "--config", job.config);
    for (const Output& output : outputs_of(job)) put(written, output.option, *output.name);
  }
  require_apart(written, read);
}

// The metrics of all cores of all ranks: {"nc_0 of rank 0": {...}, ...}; of one rank just its own.
Json metrics_of(const std::deque<RunArtifacts::Rank>& ranks) {
  if (ranks.size() == 1) return ranks.front().summary.json();
  Json all;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const Json cores = ranks[r].summary.json();
    for (const auto& [core, metrics] : cores.items()) {
      all[core + " of rank " + std::to_string(r)] = metrics;
    }
  }
  return all;
}

// `first`: the metrics of the first rank's cores.
Totals totals_of(const std::deque<RunArtifacts::Rank>& ranks, const Json& first) {
  std::vector<const Summary*> summaries;
  for (const RunArtifacts::Rank& r : ranks) summaries.push_back(&r.summary);
  return Totals(summaries, first);
}

}  // namespace of_runner
}  // namespace

Runner::Runner(const Job& job, RunListener& listener, RunArtifacts& artifacts, Programs& programs)
    : job_(job),
      listener_(listener),
      artifacts_(artifacts),
      programs_(programs),
      limits_(job.most, [&listener] { return listener.signal() != 0; }),
      policy_(job.rules) {
  for (const std::string& text : job.budgets) budgets_.push_back(parse_budget(text));
}

Outcome Runner::run() {
  prepare();
  check_races();
  listener_.prepared(options_.world.ranks);
  check_choices();
  simulate();
  stop();
  report();
  out_.stopped_by = limits_.reached();
  listener_.simulated();
  // A timed run that gets stuck says so itself; this one came through by luck.
  if (alone() && !races_.stuck.empty() && !job_.allow_races && !out_.partial) {
    throw checks::race_error(program(), races_, loaded_->trace.semaphore_names);
  }
  for (std::size_t r = 0; r < out_.ranks.size(); ++r) conclude(r);
  conclude_all();
  return std::move(out_);
}

void Runner::go_on() {
  if (!limits_.stop(0)) return;
  if (const int signal = listener_.signal(); signal != 0) throw Interrupted{signal};
  isa::fail(isa::Rule::limit_reached,
            limits_.reached() + " is reached before anything was simulated");
}

void Runner::prepare() {
  loaded_ = &programs_.get(
      job_,
      [&](std::uint64_t done, std::uint64_t all) {
        go_on();
        progress("reading", done, all);
      },
      [&](const Loaded& read) {
        listener_.stage_ended();
        const auto report = [this](const std::vector<isa::Error>& found) {
          for (const isa::Error& warning : checks::warnings(found, policy_)) {
            listener_.warn(isa::warning_text(warning));
          }
        };
        if (Programs::looks_for_lost(job_)) report(read.lost.value());
        report(read.odd);
      });
  if (!loaded_->overflow.empty()) listener_.overflow(loaded_->overflow);
  go_on();
  values_ = job_.values && !program().timing_only();
  if (!job_.time && !values_) {
    of_runner::usage(isa::Rule::options_exclude,
                     "--functional needs a trace with data and excludes --timing-only");
  }
  if (!job_.time && !budgets_.empty())
    of_runner::usage(isa::Rule::options_exclude, "--budget needs time; drop --functional");
  options_.timed = job_.time;
  options_.fold = job_.fold;
  options_.world.ranks = job_.ranks.value_or(program().ranks());
  options_.world.ring = isa::parse_ring_order(job_.ring_order);
  options_.world.any_shape = job_.any_world;
  out_.id = job_.id;
  out_.timed = job_.time;
  out_.subset = job_.expect_subset;
  out_.target = program().machine().target;
  out_.recorded = loaded_->facts;
  out_.peaks = loaded_->peaks;
  out_.moved = loaded_->moved;
}

void Runner::check_stop_request() const {
  const StopRequest& wish = job_.stop;
  const auto exclude = [](const char* text) { of_runner::usage(isa::Rule::options_exclude, text); };
  if (!wish.wanted() && (!wish.dump.empty() || !job_.dump_to.empty()))
    exclude("--dump and --dump-to show what there is at --stop-at, which is not given");
  if (wish.dump.empty() && !job_.dump_to.empty()) exclude("--dump-to needs --dump NAME,...");
  if (wish.wanted() && !job_.time) exclude("--stop-at needs time; drop --functional");
  if (!wish.dump.empty() && !values_) exclude("--dump needs values; drop --timing-only");
}

void Runner::check_choices() const {
  isa::check_world(program(), options_.world);
  if (!alone()) of_runner::require_rank_names(job_);
  of_runner::require_files_apart(job_, loaded_->trace, options_.world.ranks);
  check_stop_request();
  if (values_) return;
  const bool outputs = !job_.outputs.empty() || !job_.output_arrays.empty();
  if (!alone() && (outputs || !job_.expect.empty())) {
    of_runner::usage(isa::Rule::options_exclude,
                     "--outputs and --expect need values; drop --timing-only");
  }
  if (outputs)
    of_runner::usage(isa::Rule::options_exclude, "--outputs needs values; drop --timing-only");
  if (!job_.expect.empty())
    of_runner::usage(isa::Rule::options_exclude, "--expect needs values; drop --timing-only");
}

// Programs that wait for themselves, and those of several cores, are checked before they run.
void Runner::check_races() {
  if (!checks::may_race(program())) return;
  isa::InterpretOptions options;
  options.conditions = conditions();
  options.progress = [&](std::uint64_t n) {
    progress("checking for races", n, 0);
    return !limits_.stop(n);
  };
  checks::RaceReport found = checks::find_races(
      program(), [&] { return memory(); }, options);
  listener_.stage_ended();
  if (found.stopped) return;  // the run ends at once and says so
  if (!found.races.empty()) {
    const auto& names = loaded_->trace.semaphore_names;
    if (!job_.allow_races) throw checks::race_error(program(), found, names);
    for (const std::string& line : race_lines(program(), found, names)) listener_.warn(line);
  }
  races_ = std::move(found);
}

Runner::Memories Runner::memories() const {
  Memories all;
  for (int r = 0; r < options_.world.ranks && values_; ++r) {
    all.push_back(std::make_unique<isa::Memory>(program()));
    all.back()->limit(limits_.memory_bytes());
  }
  if (values_) load_inputs(job_, loaded_->trace, listener_.arrays(), all);
  return all;
}

std::unique_ptr<isa::Memory> Runner::memory() const {
  Memories one;
  one.push_back(std::make_unique<isa::Memory>(program()));
  one.back()->limit(limits_.memory_bytes());
  load_inputs(job_, loaded_->trace, listener_.arrays(), one);
  return std::move(one.front());
}

void Runner::simulate() {
  memories_ = memories();
  std::vector<RankInputs> ranks;
  for (std::size_t r = 0; r < static_cast<std::size_t>(options_.world.ranks); ++r) {
    ranks.push_back(rank_inputs(r));
  }
  execution_.emplace(std::move(ranks), config_for(job_, *loaded_), artifacts_);
  execution_->plan(job_.stop);
  try {
    execution_->run();
  } catch (const isa::Error&) {
    stop_before_error();
    throw;
  }
  listener_.stage_ended();
  const WorldResult& result = execution_->result();
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    const SimResult& rank = result.ranks[r];
    out_.partial = out_.partial || rank.partial;
    out_.end = std::max(out_.end, rank.end);
    out_.ranks.push_back({.instructions = rank.instructions,
                          .partial = rank.partial,
                          .timed_as = result.timed_as[r],
                          .values_of = result.values_of[r]});
  }
}

isa::Conditions Runner::conditions() const {
  return {.unwritten = job_.allow_unwritten ? isa::Unwritten::kAllow : isa::Unwritten::kError,
          .rules = policy_,
          .stochastic_rounding = job_.stochastic_rounding};
}

RankInputs Runner::rank_inputs(std::size_t rank) {
  const std::string lead = alone() ? "" : "rank " + std::to_string(rank) + ": ";
  RankInputs given{
      .input = {.program = &program(),
                .memory = values_ ? memories_[rank].get() : nullptr,
                .inputs = inputs_differ(job_, loaded_->trace) ? static_cast<int>(rank) + 1 : 1},
      .reports = files_of(rank),
      .html = for_rank(job_.html, rank),
      .reasons = job_.reasons || job_.full_confidence,
      .origin = loaded_->origin,
      .observers = [this, rank] { return listener_.observers(rank); }};
  models::RunOptions& sim = given.input.options = options_;
  sim.conditions = conditions();
  sim.semaphore_names = &loaded_->trace.semaphore_names;
  sim.conditions.warn = [this, lead](const isa::Error& warning) {
    listener_.undefined(lead + isa::warning_text(warning));
  };
  sim.conditions.print = [this, lead](const std::string& line) { listener_.print(lead + line); };
  const std::uint64_t all = alone() && job_.time ? program().insts().size() : 0;
  sim.progress = [this, all](std::uint64_t done, models::Fs) {
    progress(job_.time ? "simulating" : "executing", all != 0 ? std::min(done, all) : done, all);
    return !limits_.stop(done);
  };
  return given;
}

ReportFiles Runner::files_of(std::size_t rank) const {
  ReportFiles files = job_.reports;
  for (const auto& [option, name] : of_runner::outputs_of(files)) *name = for_rank(*name, rank);
  for (const std::string& root : job_.roots) files.sources.roots.emplace_back(root);
  return files;
}

// The run as it was where the job says, from the same inputs.
void Runner::stop() {
  FreshMemories fresh;
  if (values_) fresh = [this] { return memories(); };
  const std::optional<Stop> found = execution_->stop(fresh);
  if (!found) return;
  out_.stop = nkisim::to_json(*found);
  if (!races_.races.empty()) {
    listener_.warn("the program has races: the values at the stop are those of program order");
  }
  for (std::size_t r = 0; r < found->values.size() && !job_.dump_to.empty(); ++r) {
    write_values(for_rank(job_.dump_to, r), found->values[r]);
  }
}

// A run that fails has been at an instant all the same.
void Runner::stop_before_error() {
  if (!job_.stop.wanted()) return;
  try {
    stop();
  } catch (const isa::Error&) {
    return;  // it did not come that far: the run's own error says more
  }
  listener_.stopped(out_.stop);
}

void Runner::report() {
  if (out_.partial) listener_.simulated();
  RunCallbacks callbacks{
      .go_on = [this] { return !limits_.stop(0); },
      .progress = [this](const char* stage, std::uint64_t done,
                         std::uint64_t all) { progress(stage, done, all); },
      .simulated =
          [this] {
            listener_.stage_ended();
            listener_.simulated();
          },
      .page = [this](const std::string& html, const std::string& session,
                     const auto& write) { listener_.page(html, session, write); }};
  if (values_) callbacks.fresh = [this] { return memory(); };
  if (job_.full_confidence) callbacks.switches = [this] { return try_switches(); };
  execution_->report(callbacks);
}

SwitchRuns Runner::try_switches() {
  if (!loaded_->open) return {.runs = {}, .why_not = "the program is compiled already"};
  progress("trying the compiler's switches", 0, 0);
  SwitchRuns runs =
      nkisim::try_switches(loaded_->trace, *loaded_->recorded, loaded_->options,
                           config_for(job_, *loaded_), [this] { return !limits_.stop(0); });
  listener_.stage_ended();
  return runs;
}

// Outputs and metrics of one rank.
void Runner::conclude(std::size_t rank) {
  Outcome::Rank& out = out_.ranks[rank];
  if (job_.time) {
    const Summary& summary = artifacts_.ranks[rank].summary;
    out.summary = summary.json();
    out.latency_us = in_seconds(latency(summary)) * 1e6;
    if (!job_.summary_json.empty()) {
      write_text(for_rank(job_.summary_json, rank),
                 out.summary.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
    }
  }
  if (!values_ || out_.partial) return;
  isa::Memory& memory = *memories_[static_cast<std::size_t>(out.values_of)];
  out.files = write_outputs(job_, program(), memory, rank);
  listener_.computed(rank, program(), memory);
  const HostArrays* arrays = listener_.arrays();
  const bool given = arrays != nullptr && !arrays->expected.empty();
  if (job_.expect.empty() && !given) return;
  const auto golden =
      given ? arrays->expected : read_golden(program(), for_rank(job_.expect, rank));
  out.outputs = compare(program(), memory, golden, job_.tolerance);
  out.not_compared = left_out(program(), golden);
}

void Runner::conclude_all() {
  if (job_.time) {
    const Totals totals = of_runner::totals_of(artifacts_.ranks, out_.ranks.front().summary);
    totals.put(out_.totals);
    const nlohmann::ordered_json metrics =
        budgets_.empty() ? nlohmann::ordered_json() : of_runner::metrics_of(artifacts_.ranks);
    for (const Budget& b : budgets_) {
      out_.budgets.push_back(check_budget(b, metrics, totals.metrics()));
    }
    if (alone()) out_.confidence = execution_->trust(0);
  }
  out_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  out_.exit_code = exit_code();
}

int Runner::exit_code() const {
  if (const int signal = listener_.signal(); signal != 0) return kSignalled + signal;
  if (!out_.stopped_by.empty()) return kBadInput;
  const bool kept = std::all_of(out_.budgets.begin(), out_.budgets.end(),
                                [](const BudgetResult& b) { return b.kept; });
  const bool right = std::all_of(out_.ranks.begin(), out_.ranks.end(), [&](const auto& rank) {
    return all_match(rank.outputs) && (out_.subset || rank.not_compared.empty());
  });
  return kept && right ? kOk : kDiffers;
}

}  // namespace nkisim
