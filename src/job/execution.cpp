// Simulates the ranks of a run, attaches observers of its events, and makes the reports.

#include "src/job/execution.hpp"

#include <fstream>
#include <utility>

#include "src/job/runner.hpp"

namespace nkisim {
namespace {
namespace of_execution {

std::string bytes_of(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  if (!file) isa::fail(isa::Rule::file_unreadable, "cannot read " + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace of_execution
}  // namespace

std::vector<const Accounting*> RunArtifacts::accountings() const {
  std::vector<const Accounting*> all;
  for (const Rank& r : ranks) all.push_back(r.accounting.get());
  return all;
}

std::vector<models::Fs> RunArtifacts::latencies() const {
  std::vector<models::Fs> all;
  for (const Rank& r : ranks) all.push_back(latency(r.summary));
  return all;
}

Execution::Execution(std::vector<RankInputs> ranks,
                     std::reference_wrapper<const models::Config> config, RunArtifacts& artifacts)
    : ranks_(std::move(ranks)), config_(config), artifacts_(artifacts) {
  for (RankInputs& rank : ranks_) {
    artifacts_.ranks.emplace_back();
    rank.reports.events = rank.reports.events || !rank.html.empty();
  }
}

void Execution::plan(StopRequest wish) {
  if (!wish.wanted()) return;
  if (!options().timed) {
    isa::fail(isa::Rule::options_exclude, "a run without time has no instant to stop at");
  }
  if (!options().shard.alone()) {
    isa::fail(
        isa::Rule::options_exclude,
        "a stop needs the events of all ranks, which one process has; processes=1 is required");
  }
  if (!wish.dump.empty() && ranks_.front().input.memory == nullptr) {
    isa::fail(isa::Rule::options_exclude, "a run without values has none to dump");
  }
  for (const RankInputs& rank : ranks_) check_stop(wish, *rank.input.program);
  stop_ = std::move(wish);
}

std::optional<Stop> Execution::stop(const FreshMemories& fresh) const {
  if (!stop_.wanted()) return {};
  std::vector<StopRank> ranks;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks.push_back(
        {artifacts_.ranks[timed_as(r)].steps.get(), ranks_[r].input.options.conditions});
  }
  return stop_at(stop_, ranks, options().world, fresh);
}

const WorldResult& Execution::run() {
  std::vector<RankInput> inputs;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    inputs.push_back(ranks_[r].input);
    if (options().timed) inputs.back().observe = [this, r] { return observe(r); };
  }
  try {
    result_ = run_world(inputs, config_);
  } catch (const isa::Error&) {
    close_steps();
    throw;
  }
  for (RunArtifacts::Rank& r : artifacts_.ranks) {
    if (r.accounting && r.accounting->keeps() == Accounting::Keeps::kPath) r.accounting.reset();
  }
  return result_;
}

// A run that has failed announces no end; each rank that was simulated has what it saw.
void Execution::close_steps() {
  result_.timed_as.clear();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Steps* steps = artifacts_.ranks[r].steps.get();
    if (steps != nullptr) steps->on_end({steps->end(), true});
    result_.timed_as.push_back(steps != nullptr ? static_cast<int>(r) : 0);
  }
}

// A run may begin anew: so does all that watches it.
std::vector<models::Observer*> Execution::observe(std::size_t rank) {
  RunArtifacts::Rank& r = artifacts_.ranks[rank];
  const ReportFiles files = owns(rank) ? ranks_[rank].reports : ReportFiles();
  std::vector<models::Observer*> observers;
  r.reports.reset();
  r.accounting.reset();
  if (files.all_causes() || ranks_[rank].reasons) {
    using enum Accounting::Keeps;
    r.accounting = std::make_unique<Accounting>(files.all_causes() ? kAll : kPath);
    observers.push_back(r.accounting.get());
  }
  r.summary = Summary();
  if (r.accounting) r.summary.follow(*r.accounting);
  observers.push_back(&r.summary);
  r.confidence.reset();
  if (ranks_[rank].reasons) observers.push_back(&r.confidence.emplace());
  r.reports = std::make_unique<Reports>(files, r.accounting.get());
  r.reports->observe(observers);
  if (ranks_[rank].observers) {
    for (models::Observer* own : ranks_[rank].observers()) observers.push_back(own);
  }
  if (stop_.wanted()) {
    r.steps = std::make_unique<Steps>(static_cast<int>(rank));
    observers.push_back(r.steps.get());
  }
  return observers;
}

bool Execution::owns(std::size_t rank) const {
  return options().shard.owns(static_cast<std::int64_t>(rank));
}

nlohmann::ordered_json Execution::trust(std::size_t rank) const {
  if (!options().timed || result_.ranks[rank].partial) return nullptr;
  ProgramOrigin origin = ranks_[rank].origin;
  origin.alone = alone();
  const RunArtifacts::Rank& r = artifacts_.ranks[timed_as(rank)];
  return r.confidence ? r.confidence->json(origin, r.summary) : nullptr;
}

void Execution::report(const RunCallbacks& callbacks) {
  if (!options().timed) return;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (timed_as(r) != r) artifacts_.ranks[r].summary = artifacts_.ranks[timed_as(r)].summary;
  }
  if (alone())
    ask_more(callbacks);
  else
    report_world();
  if (callbacks.simulated) callbacks.simulated();
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (!owns(timed_as(r))) continue;  // the process that watched it has what to write
    if (!alone()) write_files(r);
    write_rank(r, callbacks);
  }
}

// Tries other compiler switches and other rates of the machine.
void Execution::ask_more(const RunCallbacks& callbacks) {
  const bool whole = !result_.ranks.front().partial;
  RankInputs& rank = ranks_.front();
  if (callbacks.switches && whole) rank.origin.switches = callbacks.switches();
  artifacts_.ranks.front().reports->write_files();
  artifacts_.ranks.front().reports->write_waves(rank.reports.vcd, 0);
  if (!whole || (!rank.reports.accounting && rank.html.empty())) return;
  if (artifacts_.ranks.front().accounting == nullptr) return;
  artifacts_.changes = what_if(*rank.input.program, config_, result_.ranks.front().end,
                               callbacks.fresh, [&](int n, int all) {
                                 if (callbacks.progress) {
                                   callbacks.progress("what if", static_cast<std::uint64_t>(n),
                                                      static_cast<std::uint64_t>(all));
                                 }
                                 return !callbacks.go_on || callbacks.go_on();
                               });
}

// The facts of all ranks that the reports of each rank contain.
void Execution::report_world() {
  bool reports_wanted = false;
  for (const RankInputs& rank : ranks_) {
    reports_wanted = reports_wanted || rank.reports.accounting || !rank.html.empty() ||
                     !rank.reports.session.empty();
  }
  if (!reports_wanted) return;
  artifacts_.world = world_facts(artifacts_.accountings(), result_.timed_as);
  // The path crosses to ranks whose events other processes have.
  if (!options().shard.alone()) artifacts_.world["path"] = nlohmann::ordered_json::array();
}

// Writes a rank's files under each name that it stands for.
void Execution::write_files(std::size_t rank) const {
  const std::size_t as = timed_as(rank);
  artifacts_.ranks[as].reports->write_waves(ranks_[rank].reports.vcd, rank);
  if (as == rank) {
    artifacts_.ranks[rank].reports->write_files();
    return;
  }
  const ReportFiles &own = ranks_[rank].reports, &same = ranks_[as].reports;
  for (const auto& [name, from] : {std::pair{own.accounting_json, same.accounting_json},
                                   {own.perfetto, same.perfetto},
                                   {own.chrome, same.chrome}}) {
    if (!name.empty()) write_text(name, of_execution::bytes_of(from));
  }
}

// The session and the page of a rank.
void Execution::write_rank(std::size_t rank, const RunCallbacks& callbacks) {
  const std::size_t as = timed_as(rank);
  const std::string &session = ranks_[rank].reports.session, &html = ranks_[rank].html;
  if (session.empty() && html.empty()) return;
  const auto write = [&](const std::string& name) {
    const RunArtifacts::Rank& r = artifacts_.ranks[as];
    if (!alone()) artifacts_.world["rank"] = rank;
    r.reports->write_session(
        name, {r.summary, result_.ranks[rank], trust(rank), alone() ? nullptr : &artifacts_.world},
        artifacts_.changes);
  };
  if (!session.empty()) write(session);
  if (!html.empty()) callbacks.page(html, session, write);
}

}  // namespace nkisim
