// Runs one core without timing until it has to wait for another core or rank.

#include "isa/world/core_run.hpp"

#include <algorithm>

#include "isa/world/meeting.hpp"

namespace nkisim::isa {

CoreRun::CoreRun(const Program& program, Memory& memory, int id, const InterpretOptions& options)
    : number(id),
      walker(program, id, state, !options.values),
      context(program, memory, state, options.conditions.unwritten) {
  context.begin(options.conditions, id);
  state.rank = options.rank;
  state.world = options.world;
}

CoreRun::CoreRun(const CoreRun& other, const Program& program, Memory& memory,
                 const InterpretOptions& options)
    : number(other.number),
      walker(other.walker, state),
      context(program, memory, state, options.conditions.unwritten),
      steps(other.steps),
      waiting(other.waiting),
      done(other.done) {
  context.begin(options.conditions, number);
  context.set_receiving(other.context.receiving());
  state = other.state;
}

namespace {

constexpr std::uint64_t kProgressEvery = 256;

}  // namespace

bool run_core(CoreRun& core, const InterpretOptions& options, std::uint64_t& count,
              std::uint64_t until) {
  for (;; ++core.steps) {
    if (core.steps >= until) return true;
    const StepEffect effect =
        options.effect ? options.effect(core.number, core.steps) : StepEffect::kAll;
    if (effect == StepEffect::kEnd) break;  // asked first: what steers the walk may be missing
    const auto step = core.walker.next();
    if (!step) break;
    ++count;
    if (options.progress && count % kProgressEvery == 0 && !options.progress(count)) return false;
    const OpSpec& op = spec(*step->inst);
    if (options.before && op.control == OpSpec::Control::kNone) {
      options.before(*step->inst, core.context);
    }
    const bool meets = op.rendezvous || op.combine != nullptr;
    if (meets && effect != StepEffect::kNone) {
      core.waiting = step->inst;
      core.context.set_receiving(effect == StepEffect::kAll);
      ++core.steps;
      return true;
    }
    if ((options.values && effect == StepEffect::kAll) || op.on_sequencer) {
      core.context.run(*step->inst);
    }
    if (options.after) options.after(*step->inst);
  }
  core.done = true;
  return true;
}

void meet(const Program& program, const CoreRuns& cores, bool values) {
  const Inst* first = nullptr;
  std::vector<const Inst*> met;
  for (const auto& core : cores) {
    if (first == nullptr) first = core->waiting;
    met.push_back(core->waiting);
  }
  if (std::find(met.begin(), met.end(), nullptr) != met.end()) fail_alone(program, *first, nullptr);
  check_meeting(program, met);
  go_on(cores);
  if (!values) return;
  std::vector<Parcel> parcels;
  for (std::size_t i = 0; i < cores.size(); ++i) parcels.push_back(cores[i]->context.send(*met[i]));
  for (std::size_t i = 0; i < cores.size(); ++i) {
    if (!cores[i]->context.receiving()) continue;
    cores[i]->context.run(*met[i], cores.size() > 1 ? &parcels[partner_of(i)] : nullptr);
  }
}

bool at_collective(const CoreRuns& cores) {
  return std::all_of(cores.begin(), cores.end(), [](const auto& core) {
    return core->waiting != nullptr && spec(*core->waiting).combine != nullptr;
  });
}

RankCalls calls_of(const CoreRuns& cores, std::int64_t rank) {
  RankCalls calls;
  for (const auto& core : cores) calls.push_back({rank, core->waiting, &core->context});
  return calls;
}

void go_on(const CoreRuns& cores) {
  for (const auto& core : cores) core->waiting = nullptr;
}

namespace {

// A collective of the only rank that runs: alone in its group, or for all of it.
void collect_alone(const CoreRuns& cores, const InterpretOptions& options) {
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

void meet_alone(const Program& program, const CoreRuns& cores, const InterpretOptions& options) {
  if (at_collective(cores)) {
    collect_alone(cores, options);
  } else {
    meet(program, cores, options.values);
  }
}

}  // namespace nkisim::isa
