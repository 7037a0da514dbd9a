// Synchronizes the ranks that this process simulates with those of other processes, round by round.
#include "models/world/rounds.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "models/collective/call.hpp"
#include "models/issue/cost.hpp"

namespace nkisim::models {

Rounds::Rounds(World& world, const isa::Shard& shard, const Config& config, SimSession& session,
               const std::vector<const isa::Program*>& programs)
    : world_(world),
      shard_(shard),
      session_(session),
      first_program_(*programs.front()),
      post_(shard, programs),
      shards_(static_cast<std::size_t>(shard.count)) {
  find_lookahead(config, programs);
}

// Finds the least time after any event of a shard at which an unknown trigger can reach a rank: the
// trigger instruction, and Collectives::lookahead.
void Rounds::find_lookahead(const Config& config,
                            const std::vector<const isa::Program*>& programs) {
  std::map<const isa::Program*, CostTable> costs;
  for (const isa::Program* program : programs) {
    const auto [table, fresh] = costs.try_emplace(program, config, *program);
    if (!fresh) continue;
    for (const isa::Inst* inst : post_.table(*program).all()) {
      const bool prepared = isa::spec(*inst).collective.part == isa::Collective::Part::kTrigger;
      ahead_ =
          std::min(ahead_, Collectives::lookahead(config.collectives, kind_of(inst->op), prepared));
      isa::Expansion expansion;
      isa::expand(*inst, program->machine(), expansion);
      for (const isa::Part& part : expansion.parts) {
        trigger_ = std::min(trigger_, table->second.cost(part).duration);
      }
    }
  }
  if (trigger_ > 1) return;
  isa::fail(isa::Rule::spread_duration, "the duration of the instructions that trigger collectives",
            "0", "some time, without which ranks cannot be spread over processes");
}

// ---- within the simulation --------------------------------------------------------------------
void Rounds::check_trigger(std::int64_t rank, Fs at) const {
  if (at >= plus(SimSession::now(), trigger_)) return;
  throw isa::Error(isa::Rule::internal_error,
                   "internal error: rank " + std::to_string(rank) +
                       " triggers a collective in its past, which a run in several processes "
                       "cannot follow; run it in one");
}

// True if a call can end as soon as its last rank arrives: an early pair of a permute, or a call of
// one rank, which ends when the calls before it have started.
bool Rounds::at_once(std::int64_t rank, const isa::Inst& inst) {
  return kind_of(inst.op) == CollectiveKind::kPermute || isa::group_of(inst, rank).size() < 2;
}

void Rounds::count(const isa::Post::Called& called, std::uint64_t call) {
  if (world_.meeting().known(called.rank, call) != 1) return;
  if (at_once(called.rank, *called.inst)) ++immediate_calls_;
  if (shard_.owns(called.rank)) ++open_;
}

void Rounds::started(std::int64_t rank, const isa::Inst& inst) {
  if (at_once(rank, inst)) --immediate_calls_;
}

void Rounds::triggered(const isa::Post::Called& called, std::uint64_t call) {
  count(called, call);
  post_.send(called);
  isa::Meeting& meeting = world_.meeting();
  if (meeting.known(called.rank, call) == meeting.cores()) read_sources(called.rank, call);
  const Fs until = plus(called.time, ahead());
  if (until >= limit_) return;
  limit_ = until;
  SimSession::pause();
}

// Reads a rank's sources when its last core arrives. Until the operation ends, no core writes
// there.
void Rounds::read_sources(std::int64_t rank, std::uint64_t call) {
  isa::Meeting& meeting = world_.meeting();
  const isa::Meeting::Group group = meeting.group_of(rank, call);
  if (!world_.evaluates() || group.empty()) return;
  const isa::RankSources& sources = meeting.read(rank, call);
  post_.send(meeting.read_lengths(rank, call));
  post_.send(group, rank, call, sources);
}

void Rounds::apply_effects(Fs now) {
  for (; !effects_.empty() && effects_.front().time <= now; effects_.pop_front()) {
    const World::Effect& due = effects_.front();
    if (due.end != kNever) --open_;
    if (due.early) early_.push_back(due);
    world_.apply(due);
  }
  schedule();
}

void Rounds::schedule() {
  wake_.cancel();
  if (effects_.empty()) return;
  wake_.notify(SimSession::time(std::max<Fs>(0, effects_.front().time - SimSession::now())));
}

// ---- rounds -----------------------------------------------------------------------------------
void Rounds::run() {
  for (;;) {
    simulate();
    meet();
    replay();
    const Fs first = first_activity();
    if (failure_ && first >= failure_->time) throw isa::Error(failure_->error);
    if (first == kNever && !mine_) return;
    limit_ = limit();
    foresee();
  }
}

// The others learn of it in the next round, and all end when none of them can have an earlier one.
void Rounds::fail(Fs time, isa::Error error) {
  first_program_.locate(error);
  const isa::Failure failure{time, shard_.number, std::move(error)};
  if (failure.before(mine_)) mine_ = failure;
}

// Everything before the limit; a trigger may bring that nearer.
void Rounds::simulate() {
  if (session_.stopped()) return;
  try {
    for (Fs last = -1; last != limit_ && !session_.stopped();) {
      last = limit_;
      session_.run_until(limit_ == kNever ? kNever : limit_ - 1);
    }
    if (session_.stopped()) {
      throw isa::Error(isa::Rule::interrupted, "the run was interrupted");
    }
  } catch (isa::Error& e) {
    fail(SimSession::now(), e);
  } catch (const std::exception& e) {
    fail(SimSession::now(), isa::Error(isa::Rule::internal_error, e.what()));
  }
  here().done = limit_ == kNever ? kNever : std::max(here().done, limit_ - 1);
  here().next = session_.stopped() ? kNever : SimSession::next();
  std::erase_if(effects_, [](const World::Effect& effect) { return effect.early; });
}

void Rounds::meet() {
  isa::Words progress;
  progress.put(here().done);
  progress.put(here().next);
  const std::vector<isa::Message> messages =
      post_.meet(std::exchange(mine_, std::nullopt), progress);
  for (std::size_t shard = 0; shard < messages.size(); ++shard) on_message(shard, messages[shard]);
}

void Rounds::on_message(std::size_t shard, const isa::Message& messages) {
  isa::WordReader in(messages.all);
  if (const auto failure = isa::Post::get_failure(in); failure && failure->before(failure_)) {
    failure_ = failure;
  }
  Progress& progress = shards_[shard];
  progress.done = in.get<Fs>();
  progress.next = in.get<Fs>();
  while (!progress.effects.empty() && progress.effects.front() < progress.done) {
    progress.effects.pop_front();
  }
  if (shard == static_cast<std::size_t>(shard_.number)) return;
  isa::Meeting& meeting = world_.meeting();
  while (!in.at_end()) {
    const isa::Post::Called called = post_.get_called(in);
    const std::uint64_t call = world_.note(called);
    count(called, call);
    if (meeting.known(called.rank, call) < meeting.cores() || !world_.evaluates()) continue;
    const isa::Inst& inst = meeting.inst(called.rank, call);
    if (!isa::spec(inst).collective.counts()) continue;
    const std::size_t members = meeting.group_of(called.rank, call).size();
    meeting.receive_lengths(called.rank, call, isa::Post::get_lengths(in, members));
  }
  isa::WordReader own(messages.mine);
  while (!own.at_end()) {
    isa::Post::Sent sent = post_.get_sent(own);
    meeting.receive(sent.rank, sent.call, std::move(sent.sources));
  }
}

// The record goes on through whatever is certain by now, in the order in which one process would
// find it.
void Rounds::replay() {
  for (;;) {
    const Fs certain = plus(first_activity(), trigger_);  // no trigger before it is unknown
    const Fs now = std::min(world_.next_arrival(), world_.next_of_model());
    if (now >= certain || mine_ || (failure_ && now >= failure_->time)) return;
    World::Effects effects;
    try {
      world_.record(now, effects);
    } catch (isa::Error& e) {
      fail(now, e);
    }
    dispatch(effects);
  }
}

// Checks that each effect in the past was foreseen.
void Rounds::dispatch(World::Effects& effects) {
  for (World::Effect& effect : effects) {
    const int owner = shard_.owner[static_cast<std::size_t>(effect.rank)];
    Progress& shard = shards_[static_cast<std::size_t>(owner)];
    if (effect.time >= shard.done) shard.effects.push_back(effect.time);
    if (owner != shard_.number) continue;
    if (effect.time >= here().done) {
      effects_.push_back(std::move(effect));
    } else if (!session_.stopped()) {
      if (early_.empty() || !early_.front().same(effect)) {
        throw isa::Error(isa::Rule::internal_error, "internal error: a collective reached rank " +
                                                        std::to_string(effect.rank) +
                                                        " before it could be known");
      }
      early_.pop_front();
    }
  }
}

// Finds the effects on this shard's ranks before the limit, provided that no core triggers a call.
void Rounds::foresee() {
  if (!session_.stopped()) {
    World::Effects effects;
    world_.foresee(limit_, effects);
    for (World::Effect& effect : effects) {
      if (shard_.owns(effect.rank) && effect.time >= here().done) {
        effects_.push_back(std::move(effect));
      }
    }
  }
  schedule();
}

// The next time at which something can happen on a shard's ranks that it has not sent yet.
Fs Rounds::next_activity(const Progress& shard) const {
  Fs first = shard.next;
  if (!shard.effects.empty()) first = std::min(first, shard.effects.front());
  const Fs reached = std::min(plus(world_.next_arrival(), ahead()), world_.next_of_model());
  if (reached == kNever) return first;
  return std::min(first, std::max(reached, shard.done));
}

Fs Rounds::first_activity() const {
  Fs first = kNever;
  for (const Progress& shard : shards_) first = std::min(first, next_activity(shard));
  return first;
}

// The time that this shard can go to. Without a call that has not ended, operations do not concern
// it; triggered() brings the limit nearer. Else unknown effects come from triggers that others have
// not sent, or that are sent and not replayed.
Fs Rounds::limit() const {
  const Fs done = here().done;
  if (done == kNever) return kNever;
  Fs first = kNever;
  if (open_ > 0) {
    for (const Progress& shard : shards_) {
      if (&shard != &here()) first = std::min(first, next_activity(shard));
    }
    first = plus(plus(first, trigger_), ahead());
    first = std::min(first, plus(world_.next_arrival(), ahead()));
  }
  if (failure_) first = std::min(first, failure_->time);
  return first == kNever ? kNever : std::max(first, done + 1);
}

}  // namespace nkisim::models
