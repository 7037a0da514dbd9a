#include "isa/world/interpreter.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "isa/machine/rounding.hpp"
#include "isa/program/walker.hpp"
#include "isa/world/exchange.hpp"
#include "isa/world/spread.hpp"

namespace nkisim::isa {
namespace {

constexpr std::uint64_t kProgressEvery = 256;

// One core being interpreted.
struct Core {
  Core(const Program& program, Memory& memory, int id, const InterpretOptions& options)
      : walker(program, id, state), context(program, memory, state, options.unwritten) {
    context.print = options.print;
    state.checks_registers = options.unwritten == Unwritten::kError;
    state.rank = options.rank;
    state.world = options.world;
    if (options.stochastic_rounding) seed_rounding(state, *options.stochastic_rounding, id);
  }
  CoreState state;
  Walker walker;
  EvalContext context;
  const Inst* waiting = nullptr;  // at a rendezvous or a collective
  bool done = false;
};

// Runs a core up to its next rendezvous or collective, or to its end. Returns false if progress
// asked to stop.
bool run_core(Core& core, const InterpretOptions& options, std::uint64_t& count) {
  while (const auto step = core.walker.next()) {
    ++count;
    if (options.progress && count % kProgressEvery == 0 && !options.progress(count)) return false;
    const OpSpec& op = spec(*step->inst);
    if (options.before && op.control == OpSpec::Control::kNone) {
      options.before(*step->inst, core.context);
    }
    if (op.rendezvous || op.combine != nullptr) {
      core.waiting = step->inst;
      return true;
    }
    if (options.values || op.on_sequencer) core.context.run(*step->inst);
    if (options.after) options.after(*step->inst);
  }
  core.done = true;
  return true;
}

void meet(const Program& program, std::vector<std::unique_ptr<Core>>& cores, bool values) {
  const Inst* first = nullptr;
  std::vector<const Inst*> met;
  for (const auto& core : cores) {
    if (first == nullptr) first = core->waiting;
    met.push_back(core->waiting);
  }
  if (std::find(met.begin(), met.end(), nullptr) != met.end()) fail_alone(program, *first, nullptr);
  check_meeting(program, met);
  for (const auto& core : cores) core->waiting = nullptr;
  if (!values) return;
  std::vector<Parcel> parcels;
  for (std::size_t i = 0; i < cores.size(); ++i) parcels.push_back(cores[i]->context.send(*met[i]));
  for (std::size_t i = 0; i < cores.size(); ++i) {
    cores[i]->context.run(*met[i], cores.size() > 1 ? &parcels[partner_of(i)] : nullptr);
  }
}

using Cores = std::vector<std::unique_ptr<Core>>;

bool at_collective(const Cores& cores) {
  return std::all_of(cores.begin(), cores.end(), [](const auto& core) {
    return core->waiting != nullptr && spec(*core->waiting).combine != nullptr;
  });
}

RankCalls calls_of(const Cores& cores, std::int64_t rank) {
  RankCalls calls;
  for (const auto& core : cores) calls.push_back({rank, core->waiting, &core->context});
  return calls;
}

void go_on(const Cores& cores) {
  for (const auto& core : cores) core->waiting = nullptr;
}

// A collective of the only rank that runs: alone in its group, or for all of it.
void collect_alone(const Cores& cores, const InterpretOptions& options) {
  const std::vector<std::int64_t> group = group_of(*cores.front()->waiting, options.rank);
  if (group.size() > 1 && !options.lockstep) {
    Error e(Rule::needs_other_ranks,
            "the result depends on other ranks, which do not run here" +
                std::string(options.world.ranks > 1
                                ? " (values are asked for while the kernel is recorded)"
                                : ""));
    e.at(spec(*cores.front()->waiting).name, cores.front()->waiting->loc);
    cores.front()->context.program().locate(e);
    throw e;
  }
  std::vector<RankCalls> calls;
  std::size_t me = 0;
  for (const std::int64_t rank : group) {
    if (rank == options.rank) me = calls.size();
    calls.push_back(calls_of(cores, rank));
  }
  if (!calls.empty() && options.values) run_collective(calls, options.world, me);
  go_on(cores);
}

}  // namespace

std::uint64_t interpret(const Program& program, Memory& memory, const InterpretOptions& options) {
  Cores cores;
  for (int c = 0; c < program.cores(); ++c) {
    cores.push_back(std::make_unique<Core>(program, memory, c, options));
  }
  memory.begin_run();
  std::uint64_t count = 0;
  for (;;) {
    bool waiting = false;
    for (const auto& core : cores) {
      if (!core->done && !run_core(*core, options, count)) return count;
      waiting |= core->waiting != nullptr;
    }
    if (!waiting) break;
    if (at_collective(cores)) {
      collect_alone(cores, options);
    } else {
      meet(program, cores, options.values);
    }
  }
  if (options.unwritten == Unwritten::kError) {
    check_outputs(program, memory, options.undefined_output);
  }
  return count;
}

namespace {

// One rank of a world being interpreted.
struct Rank {
  const RankRun& run;
  InterpretOptions options;
  Cores cores;

  Rank(const RankRun& given, int number, const World& world) : run(given), options(given.options) {
    options.rank = number;
    options.world = world;
    for (int c = 0; c < run.program->cores(); ++c) {
      cores.push_back(std::make_unique<Core>(*run.program, *run.memory, c, options));
    }
    run.memory->begin_run();
  }

  [[nodiscard]] bool waits() const { return cores.front()->waiting != nullptr; }

  // Goes on to the next collective or to the end. False if progress asked to stop.
  bool advance(std::uint64_t& count) {
    for (;;) {
      bool waiting = false;
      for (const auto& core : cores) {
        if (core->waiting == nullptr && !core->done && !run_core(*core, options, count)) {
          return false;
        }
        waiting |= core->waiting != nullptr;
      }
      if (!waiting || at_collective(cores)) return true;
      meet(*run.program, cores, options.values);
    }
  }
};

// A world being interpreted, or one part's ranks of it: of the others it knows where they wait, and
// what they have sent.
class WorldRuns {
 public:
  WorldRuns(std::span<const RankRun> runs, const World& world, const Spread& spread)
      : runs_(runs), world_(world), spread_(spread), at_(runs.size()), sources_(runs.size()) {
    std::map<const Program*, std::shared_ptr<CollectiveTable>> known;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const bool own = spread.owns(static_cast<std::int64_t>(r));
      ranks_.push_back(own ? std::make_unique<Rank>(runs[r], static_cast<int>(r), world) : nullptr);
      waiting_.push_back({.rank = static_cast<std::int64_t>(r), .program = runs[r].program});
      if (spread.link == nullptr) continue;
      auto& table = known[runs[r].program];
      if (table == nullptr) table = std::make_shared<CollectiveTable>(*runs[r].program);
      tables_.push_back(table);
    }
  }

  std::uint64_t run() {
    for (;; ++phase_) {
      if (!attempt(2 * phase_, [&](std::int64_t& rank) { return advance(rank); })) return count_;
      if (spread_.link != nullptr) tell_others();
      if (std::none_of(waiting_.begin(), waiting_.end(),
                       [](const WaitingRank& w) { return w.inst != nullptr; })) {
        break;
      }
      bool any = false;
      (void)attempt(2 * phase_ + 1, [&](std::int64_t& at) {
        any = complete_some(at);
        return true;
      });
      if (!any && !failure_) fail_deadlock(waiting_);
    }
    (void)attempt(2 * phase_ + 1, [&](std::int64_t& rank) { return check(rank); });
    if (spread_.link != nullptr) agree(spread_, failure_);
    return count_;
  }

 private:
  // What fn(order) does or throws; an error waits for those of the other parts.
  template <typename Fn>
  bool attempt(std::int64_t time, Fn&& fn) {
    if (failure_) return true;
    std::int64_t order = 0;
    try {
      const bool whole = fn(order);
      if (whole || spread_.link == nullptr) return whole;
      failure_ = Failure{time, order, Error(Rule::interrupted, "the run was interrupted")};
    } catch (const Error& e) {
      if (spread_.link == nullptr) throw;
      failure_ = Failure{time, order, e};
    }
    return true;
  }

  // All ranks that can, up to their next collective. False if progress asked to stop.
  bool advance(std::int64_t& rank) {
    for (WaitingRank& w : waiting_) {
      const auto r = static_cast<std::size_t>(w.rank);
      if (w.inst != nullptr || ranks_[r] == nullptr) continue;
      rank = w.rank;
      if (!ranks_[r]->advance(count_)) return false;
      if (!ranks_[r]->waits()) continue;
      for (const auto& core : ranks_[r]->cores) at_[r].push_back(core->waiting);
      w.come_to(*at_[r].front());
      if (spread_.link == nullptr || w.group.empty()) continue;
      if (ranks_[r]->options.values) sources_[r] = read_sources(calls_of(r));
      come_.push_back(w.rank);
    }
    return true;
  }

  void tell_others() {
    Words all;
    std::vector<Words> each(static_cast<std::size_t>(spread_.parts));
    put_failure(all, failure_);
    for (const WaitingRank& w : waiting_) {
      const auto r = static_cast<std::size_t>(w.rank);
      if (at_[r].empty() || ranks_[r] == nullptr || told_.count(w.rank) != 0) continue;
      told_.insert(w.rank);
      all.put(w.rank);
      for (const Inst* inst : at_[r]) all.put(tables_[r]->number(*inst));
    }
    for (const std::int64_t rank : come_) {
      const auto r = static_cast<std::size_t>(rank);
      for (const int part : parts_of(waiting_[r].group, spread_)) {
        Words& to = each[static_cast<std::size_t>(part)];
        to.put(rank);
        put_sources(to, sources_[r], *runs_[r].program);
      }
    }
    come_.clear();
    std::vector<std::string> bytes;
    for (Words& words : each) bytes.push_back(words.take());
    std::optional<Failure> first;
    const std::vector<Told> told = spread_.link->meet(all.bytes(), bytes);
    for (int part = 0; part < spread_.parts; ++part) {
      hear(told[static_cast<std::size_t>(part)], part == spread_.part, first);
    }
    if (first) throw Error(first->error);
  }

  void hear(const Told& told, bool mine, std::optional<Failure>& first) {
    WordReader in(told.all);
    if (auto failure = get_failure(in); failure && failure->before(first)) first = failure;
    if (mine) return;
    while (!in.at_end()) {
      const auto rank = in.get<std::int64_t>();
      const auto r = static_cast<std::size_t>(rank);
      for (int c = 0; c < runs_[r].program->cores(); ++c) {
        at_[r].push_back(&tables_[r]->inst(in.get<std::uint32_t>()));
      }
      waiting_[r].come_to(*at_[r].front());
    }
    WordReader sent(told.mine);
    while (!sent.at_end()) {
      const auto r = static_cast<std::size_t>(sent.get<std::int64_t>());
      sources_[r] = get_sources(sent, *runs_[r].program);
    }
  }

  RankCalls calls_of(std::size_t r) {
    RankCalls calls;
    for (std::size_t c = 0; c < at_[r].size(); ++c) {
      Member member{.rank = static_cast<std::int64_t>(r), .inst = at_[r][c]};
      if (ranks_[r] != nullptr) member.context = &ranks_[r]->cores[c]->context;
      if (ranks_[r] == nullptr) member.program = runs_[r].program;
      if (c < sources_[r].size()) member.sources = &sources_[r][c];
      calls.push_back(member);
    }
    return calls;
  }

  void go_on(std::int64_t rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (ranks_[r] != nullptr) isa::go_on(ranks_[r]->cores);
    waiting_[r].inst = nullptr;
    at_[r].clear();
    sources_[r].clear();
    told_.erase(rank);
  }

  // Completes the collectives whose ranks have all come; true if there was one.
  bool complete_some(std::int64_t& at) {
    bool any = false;
    for (WaitingRank& w : waiting_) {
      at = w.rank;
      if (w.inst == nullptr) continue;
      if (w.group.empty()) {  // takes no part
        go_on(w.rank);
        any = true;
        continue;
      }
      if (!complete(w, waiting_)) continue;
      std::vector<RankCalls> calls;
      const std::vector<std::int64_t> group = w.group;
      bool here = false;
      for (const std::int64_t rank : group) {
        calls.push_back(calls_of(static_cast<std::size_t>(rank)));
        here = here || spread_.owns(rank);
      }
      if (here) {
        run_collective(calls, world_);
      } else {
        check_collective(calls);
      }
      for (const std::int64_t rank : group) go_on(rank);
      any = true;
    }
    return any;
  }

  bool check(std::int64_t& rank) {
    for (std::size_t r = 0; r < runs_.size(); ++r) {
      rank = static_cast<std::int64_t>(r);
      const InterpretOptions& options = runs_[r].options;
      if (ranks_[r] == nullptr || options.unwritten != Unwritten::kError) continue;
      check_outputs(*runs_[r].program, *runs_[r].memory, options.undefined_output);
    }
    return true;
  }

  std::span<const RankRun> runs_;
  const World& world_;
  const Spread& spread_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // null: of another part
  std::vector<WaitingRank> waiting_;
  std::vector<std::vector<const Inst*>> at_;  // per rank and core: where it waits
  std::vector<RankSources> sources_;          // per rank; empty: they are read from memory
  std::vector<std::int64_t> come_;            // whose sources other parts do not know yet
  std::set<std::int64_t> told_;               // own ranks of which the others know where they wait
  std::vector<std::shared_ptr<CollectiveTable>> tables_;  // per rank, if there are other parts
  std::optional<Failure> failure_;
  std::uint64_t count_ = 0;
  std::int64_t phase_ = 0;
};

}  // namespace

std::uint64_t interpret_world(std::span<const RankRun> runs, const World& world,
                              const Spread& spread) {
  return WorldRuns(runs, world, spread).run();
}

std::uint64_t interpret_world(std::span<const RankRun> runs, const World& world) {
  return interpret_world(runs, world, {});
}

struct Evaluation::Cores {
  std::vector<std::unique_ptr<Core>> all;
};

Evaluation::Evaluation(const Program& program, Memory& memory, int cores, InterpretOptions options)
    : program_(program),
      memory_(memory),
      options_(std::move(options)),
      cores_(std::make_unique<Cores>()) {
  options_.after = [this](const Inst& inst) {
    const auto due = releases_.find(&inst);
    if (due == releases_.end()) return;
    for (const std::uint32_t tensor : due->second) memory_.release(tensor);
    releases_.erase(due);
  };
  for (int c = 0; c < cores; ++c) {
    cores_->all.push_back(std::make_unique<Core>(program, memory, c, options_));
  }
}

Evaluation::~Evaluation() = default;

void Evaluation::release_behind(
    const std::vector<std::pair<std::int64_t, std::uint32_t>>& last_uses) {
  for (const auto& [last, tensor] : last_uses) {
    const Inst* inst = last < 0 ? nullptr : &program_.insts().at(static_cast<std::size_t>(last));
    releases_[inst].push_back(tensor);
  }
}

bool Evaluation::advance(int core, bool complete) {
  auto& cores = cores_->all;
  const Core& wanted = *cores.at(static_cast<std::size_t>(core));
  for (;;) {
    bool all_wait = true;
    for (const auto& c : cores) {
      if (c->waiting == nullptr && !run_core(*c, options_, count_)) return false;
      all_wait = all_wait && c->waiting != nullptr;
    }
    if (wanted.waiting == nullptr) {
      for (const auto& [inst, tensors] : releases_) {
        for (const std::uint32_t tensor : tensors) memory_.release(tensor);
      }
      releases_.clear();
      return true;
    }
    if (!all_wait && !complete) return false;
    if (at_collective(cores)) {
      collect_alone(cores, options_);
    } else {
      meet(program_, cores, options_.values);
    }
  }
}

}  // namespace nkisim::isa
