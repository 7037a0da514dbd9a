#include "models/world_part.hpp"

#include <algorithm>

#include "models/collective/call.hpp"
#include "models/cost.hpp"

namespace nkisim::models {
bool WorldPart::Effect::same(const Effect& other) const {
  return time == other.time && rank == other.rank && call == other.call && end == other.end &&
         moving.start == other.moving.start && moving.span == other.moving.span &&
         moving.hbm_bytes == other.moving.hbm_bytes &&
         moving.engine_bytes == other.moving.engine_bytes;
}

WorldPart::WorldPart(sc_core::sc_module_name name, const isa::World& world, const Config& config,
                     SimSession& session, const isa::Spread& spread,
                     const std::vector<const isa::Program*>& programs)
    : WorldRun(name, world, config, session),
      spread_(spread),
      ranks_(programs.size()),
      lnc_(programs.front()->cores()),
      parts_(static_cast<std::size_t>(spread.parts)),
      each_(static_cast<std::size_t>(spread.parts)) {
  std::map<const isa::Program*, std::shared_ptr<const isa::CollectiveTable>> tables;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    auto& table = tables[programs[r]];
    if (table == nullptr) table = std::make_shared<isa::CollectiveTable>(*programs[r]);
    ranks_[r].program = programs[r];
    ranks_[r].table = table;
    ranks_[r].triggered.resize(static_cast<std::size_t>(lnc_));
    waiting_.push_back({.rank = static_cast<std::int64_t>(r), .program = programs[r]});
  }
  find_lookahead(programs);
  SC_HAS_PROCESS(WorldPart);
  SC_METHOD(step);
}

// How long after any event of a part a trigger that nobody knows of can reach a rank at the
// earliest: the trigger instruction, and what Collectives::lookahead says.
void WorldPart::find_lookahead(const std::vector<const isa::Program*>& programs) {
  std::map<const isa::Program*, CostTable> costs;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    const isa::Program& program = *programs[r];
    const bool known = costs.count(&program) != 0;
    const CostTable& table = costs.try_emplace(&program, config_, program).first->second;
    for (const isa::Inst* inst : ranks_[r].table->all()) {
      if (known) continue;
      ahead_ = std::min(ahead_, Collectives::lookahead(config_.collectives, kind_of(inst->op)));
      isa::Expansion expansion;
      isa::expand(*inst, program.machine(), expansion);
      for (const isa::Part& part : expansion.parts) {
        trigger_ = std::min(trigger_, table.cost(part).duration);
      }
    }
  }
  if (trigger_ > 1) return;
  isa::fail(isa::Rule::spread_duration, "the duration of the instructions that trigger collectives",
            "0", "some time, without which ranks cannot be spread over processes");
}

void WorldPart::add(Device& device) {
  ranks_[static_cast<std::size_t>(device.rank())].device = &device;
  evaluates_ = evaluates_ || device.evaluates();
}

// ---- within the simulation ------------------------------------------------------------------
void WorldPart::step() {
  if (session_.stopped()) return;
  try {
    const Fs now = SimSession::now();
    while (!effects_.empty() && effects_.front().time <= now) {
      const Effect effect = std::move(effects_.front());
      effects_.pop_front();
      apply(effect);
      if (effect.early) early_.push_back(effect);
    }
    schedule();
    next_trigger(wake_);
  } catch (...) {
    session_.fail(std::current_exception());
  }
}

void WorldPart::schedule() {
  wake_.cancel();
  if (effects_.empty()) return;
  wake_.notify(SimSession::time(std::max<Fs>(0, effects_.front().time - SimSession::now())));
}

void WorldPart::apply(const Effect& effect) {
  Device& device = *ranks_[static_cast<std::size_t>(effect.rank)].device;
  if (effect.call == nullptr) {
    share_memory(device, effect.moving, effect.time);
    return;
  }
  --open_;
  finish(device, effect.call->operations, effect.end, effect.part.get());
}

WorldPart::Call& WorldPart::call(Rank& rank, std::uint64_t number) {
  while (rank.calls.size() <= number - rank.started) {
    rank.calls.push_back(
        {.insts = std::vector<const isa::Inst*>(rank.triggered.size()), .operations = {}});
  }
  return rank.calls[number - rank.started];
}

// Whether a call can end when the last rank comes: a permute's early pairs begin then, and a call
// that needs nobody ends when those before it have started.
bool WorldPart::at_once(std::int64_t rank, const isa::Inst& inst) {
  return kind_of(inst.op) == CollectiveKind::kPermute || isa::group_of(inst, rank).size() < 2;
}

void WorldPart::note(std::int64_t r, std::size_t core, const isa::Inst& inst, Fs at) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const std::uint64_t number = rank.triggered[core]++;
  Call& c = call(rank, number);
  c.insts[core] = &inst;
  if (c.known++ == 0 && at_once(r, inst)) ++hasty_;
  arrivals_.push({at, r, number});
}

void WorldPart::trigger(Device& device, std::size_t core, Operation& op, Fs at) {
  const std::int64_t r = device.rank();
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  const std::uint64_t number = rank.triggered[core];
  if (at < plus(SimSession::now(), trigger_)) {
    throw isa::Error(isa::Rule::internal_error,
                     "internal error: rank " + std::to_string(r) +
                         " triggers a collective in its past, which a run in several processes "
                         "cannot follow; run it in one");
  }
  note(r, core, *op.step.inst, at);
  Call& c = call(rank, number);
  c.operations.resize(device.cores());
  c.operations[core] = &op;
  if (c.known == 1) ++open_;
  all_.put(r);
  all_.put<std::uint32_t>(static_cast<std::uint32_t>(core));
  all_.put(rank.table->number(*op.step.inst));
  all_.put(at);
  if (c.known == device.cores()) note_sources(r, number);
  const Fs until = plus(at, ahead());
  if (until >= limit_) return;
  limit_ = until;
  SimSession::pause();
}

// What a rank of this part sends is read when its last core has come: until the operation has ended
// nobody writes there.
void WorldPart::note_sources(std::int64_t r, std::uint64_t number) {
  Rank& rank = ranks_[static_cast<std::size_t>(r)];
  Call& c = call(rank, number);
  const Group group = isa::group_of(*c.insts.front(), r);
  if (!evaluates_ || group.empty()) return;
  isa::RankCalls calls;
  for (std::size_t core = 0; core < c.insts.size(); ++core) {
    calls.push_back(
        {.rank = r, .inst = c.insts[core], .context = &rank.device->core(core).context()});
  }
  c.sources = isa::read_sources(calls);
  calls.front().sources = &c.sources.front();
  c.lengths = isa::lengths_from(calls.front(), group.size());
  for (const std::int64_t length : c.lengths) all_.put(length);
  for (const int part : isa::parts_of(group, spread_)) {
    isa::Words& to = each_[static_cast<std::size_t>(part)];
    to.put(r);
    to.put(number);
    isa::put_sources(to, c.sources, *rank.program);
  }
}

// ---- rounds -----------------------------------------------------------------------------------
void WorldPart::run() {
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
void WorldPart::fail(Fs time, const isa::Error& error) {
  const isa::Failure failure{time, spread_.part, error};
  if (failure.before(mine_)) mine_ = failure;
}

// Everything before the limit; a trigger may bring that nearer.
void WorldPart::simulate() {
  Progress& here = parts_[static_cast<std::size_t>(spread_.part)];
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
    ranks_.front().program->locate(e);
    fail(SimSession::now(), e);
  } catch (const std::exception& e) {
    fail(SimSession::now(), isa::Error(isa::Rule::internal_error, e.what()));
  }
  here.done = limit_ == kNever ? kNever : std::max(here.done, limit_ - 1);
  here.next = session_.stopped() ? kNever : SimSession::next();
  std::erase_if(effects_, [](const Effect& effect) { return effect.early; });
}

void WorldPart::meet() {
  const Progress& here = parts_[static_cast<std::size_t>(spread_.part)];
  isa::Words out;
  isa::put_failure(out, mine_);
  mine_.reset();
  out.put(here.done);
  out.put(here.next);
  std::string all = out.take() + all_.take();
  std::vector<std::string> each;
  for (isa::Words& words : each_) each.push_back(words.take());
  const std::vector<isa::Told> told = spread_.link->meet(all, each);
  for (int part = 0; part < spread_.parts; ++part) {
    hear(part, told[static_cast<std::size_t>(part)]);
  }
}

void WorldPart::hear(int part, const isa::Told& told) {
  isa::WordReader in(told.all);
  if (const auto failure = isa::get_failure(in); failure && failure->before(failure_)) {
    failure_ = failure;
  }
  Progress& progress = parts_[static_cast<std::size_t>(part)];
  progress.done = in.get<Fs>();
  progress.next = in.get<Fs>();
  while (!progress.effects.empty() && progress.effects.front() < progress.done) {
    progress.effects.pop_front();
  }
  if (part == spread_.part) return;
  while (!in.at_end()) {
    const auto r = in.get<std::int64_t>();
    const auto core = in.get<std::uint32_t>();
    Rank& rank = ranks_.at(static_cast<std::size_t>(r));
    const isa::Inst& inst = rank.table->inst(in.get<std::uint32_t>());
    const std::uint64_t number = rank.triggered[core];
    note(r, core, inst, in.get<Fs>());
    Call& c = call(rank, number);
    if (c.known < rank.triggered.size() || !evaluates_) continue;
    if (isa::param_index(isa::spec(*c.insts.front()), "metadata_tensor") < 0) continue;
    c.lengths.resize(isa::group_of(*c.insts.front(), r).size());
    for (std::int64_t& length : c.lengths) length = in.get<std::int64_t>();
  }
  isa::WordReader sent(told.mine);
  while (!sent.at_end()) {
    Rank& rank = ranks_.at(static_cast<std::size_t>(sent.get<std::int64_t>()));
    const auto number = sent.get<std::uint64_t>();
    call(rank, number).sources = isa::get_sources(sent, *rank.program);
  }
}

// When something can next happen on a part's ranks that it has not told yet.
Fs WorldPart::next_activity(std::size_t number) const {
  const Progress& part = parts_[number];
  Fs first = part.next;
  if (!part.effects.empty()) first = std::min(first, part.effects.front());
  Fs reached = plus(next_arrival(), ahead());
  if (model_ != nullptr) reached = std::min(reached, model_->next());
  if (reached == kNever) return first;
  return std::min(first, std::max(reached, part.done));
}

Fs WorldPart::first_activity() const {
  Fs first = kNever;
  for (std::size_t p = 0; p < parts_.size(); ++p) first = std::min(first, next_activity(p));
  return first;
}

// How far this part can go. Without a call that has not ended, operations do not concern it;
// trigger() brings the limit nearer. Else what it does not know comes from triggers that others
// have not told, or that are told and not replayed.
Fs WorldPart::limit() const {
  const Fs done = parts_[static_cast<std::size_t>(spread_.part)].done;
  if (done == kNever) return kNever;
  Fs first = kNever;
  if (open_ > 0) {
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (p != static_cast<std::size_t>(spread_.part)) first = std::min(first, next_activity(p));
    }
    first = plus(plus(first, trigger_), ahead());
    first = std::min(first, plus(next_arrival(), ahead()));
  }
  if (failure_) first = std::min(first, failure_->time);
  return first == kNever ? kNever : std::max(first, done + 1);
}

}  // namespace nkisim::models
