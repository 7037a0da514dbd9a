// Simulates all ranks with timing, and applies their collective operations.
#include "models/world/world.hpp"

#include <algorithm>
#include <utility>

#include "models/collective/call.hpp"
#include "models/world/rounds.hpp"

namespace nkisim::models {

bool World::Effect::same(const Effect& other) const {
  return time == other.time && rank == other.rank && flight == other.flight && end == other.end &&
         moving.start == other.moving.start && moving.span == other.moving.span &&
         moving.hbm_bytes == other.moving.hbm_bytes &&
         moving.engine_bytes == other.moving.engine_bytes;
}

World::World(const sc_core::sc_module_name& name, const isa::World& world,
             std::reference_wrapper<const Config> config, Clock& clock, SimSession* session,
             const isa::Shard& shard, const std::vector<const isa::Program*>& programs,
             Chips& chips)
    : sc_module(name),
      world_(world),
      config_(config),
      clock_(clock),
      session_(session),
      chips_(chips),
      meeting_(world, programs),
      ranks_(programs.size()),
      wake_(clock, "wake"),
      alarm_(clock, "alarm") {
  if (!shard.alone()) {
    rounds_ = std::make_unique<Rounds>(*this, shard, config, *session, programs);
  }
  if (world.ranks > 1) {
    links_ =
        std::make_unique<Links>("links", config, static_cast<int>(meeting_.cores()), world.ranks);
  }
  SC_HAS_PROCESS(World);
  SC_METHOD(step);
  sensitive << wake_.event() << alarm_.event();
  if (rounds_ != nullptr) sensitive << rounds_->wake();
}

World::~World() = default;

void World::add(Rank& rank, const std::vector<int>& twins) {
  std::vector<isa::EvalContext*> contexts;
  for (std::size_t c = 0; c < rank.cores(); ++c) {
    contexts.push_back(&rank.core(c).context());
    for (CollectiveCore* cc : chips_.cc_cores(rank.number())) cc->dma.bind(rank.core(c).dma());
  }
  meeting_.host(rank.number(), std::move(contexts), twins);
  member(rank.number()).module = &rank;
  evaluates_ = evaluates_ || rank.evaluates();
}

void World::run() {
  if (rounds_ != nullptr) {
    rounds_->run();
  } else {
    session_->run();
  }
}

// ---- what ranks do to each other at one instant ------------------------------------------------
void World::met(Rank& rank, std::uint32_t number) {
  met_.push_back({&rank, number});
  wake_.ring_next();
}

// In whatever order the ranks come: a meeting changes nothing outside of its own.
void World::hold_meetings(Fs now) {
  std::vector<Met> met;
  met.swap(met_);
  for (const Met& m : met) m.rank->hold_meeting(m.number, now);
}

void World::apply(const Effect& effect) {
  Rank& rank = *member(effect.rank).module;
  if (effect.end == kNever) {
    chips_.cc_core(effect.moving.rank, effect.moving.stream)
        .move(effect.moving, effect.time, rank.core(0).hbm->requests(),
              config_.dma.hardware.max_packet_bytes);
    return;
  }
  for (std::size_t c = 0; c < rank.cores(); ++c) {
    rank.core(c).finish_collective(*effect.flight->operations[c], effect.end, effect.part.get());
  }
}

// ---- calls ------------------------------------------------------------------------------------
World::Call& World::call(Member& member, std::uint64_t number) {
  while (member.calls.size() <= number - member.started) {
    member.calls.push_back({.operations = std::vector<Operation*>(meeting_.cores())});
  }
  return member.calls[number - member.started];
}

const World::Call& World::oldest(std::int64_t each) {
  return member(meeting_.host_of(each)).calls.front();
}

std::uint64_t World::note(const isa::Post::Called& called) {
  const std::uint64_t number = meeting_.note(called.rank, called.core, *called.inst);
  Call& c = call(member(called.rank), number);
  c.triggered = std::max(c.triggered, called.time);
  c.prepared = std::max(c.prepared, called.prepared);
  arrivals_.push({called.time, called.rank, number});
  return number;
}

void World::trigger(Rank& rank, std::size_t core, Operation& op, Fs at) {
  const std::int64_t r = rank.number();
  if (rounds_ != nullptr) rounds_->check_trigger(r, at);
  const isa::Post::Called called{.rank = r,
                                 .core = core,
                                 .inst = op.step.inst,
                                 .time = at,
                                 .prepared = rank.core(core).prepared()};
  const std::uint64_t number = note(called);
  call(member(r), number).operations[core] = &op;
  if (rounds_ != nullptr) {
    rounds_->triggered(called, number);
  } else {
    wake_.ring_next();
  }
}

// First everything else of this instant, in whatever order SystemC runs the cores: what one does to
// another comes in a delta cycle of its own.
void World::step() {
  if (clock_.stopped()) return;
  if (!wake_.triggered()) {
    wake_.ring_next();
    return;
  }
  try {
    act(clock_.now());
  } catch (...) {
    clock_.fail(std::current_exception());
    clock_.quiet();
  }
}

void World::act(Fs now) {
  hold_meetings(now);
  if (rounds_ != nullptr) {
    rounds_->apply_effects(now);
    return;
  }
  Effects recorded;
  record(now, recorded);
  for (const Effect& effect : recorded) apply(effect);
  const Fs next = std::min(next_arrival(), next_of_model());
  alarm_.cancel();
  if (next != kNever) {
    alarm_.ring_at(std::max(next, now));
  } else {
    clock_.quiet();
  }
}

// ---- the record -------------------------------------------------------------------------------
void World::record(Fs now, Effects& effects) {
  harvest(now, effects);
  if (next_arrival() > now) return;
  for (; next_arrival() <= now; arrivals_.pop()) {
    meeting_.arrive(arrivals_.top().rank, arrivals_.top().call);
  }
  // One that starts may make way for the next.
  while (meeting_.changed()) {
    for (std::int64_t r = 0; r < meeting_.ranks(); ++r) {
      if (meeting_.waits(r)) start(r, now, effects);
    }
  }
  harvest(now, effects);
}

// Starts all calls that are ready together with a rank's oldest call.
void World::start(std::int64_t first, Fs now, Effects& effects) {
  const isa::Meeting::Ready ready = meeting_.ready(first);
  if (ready.groups.empty()) return;
  const auto flights = std::make_shared<Flights>();
  for (const std::int64_t host : ready.hosts) {
    if (member(host).module == nullptr) continue;
    (*flights)[host] = std::make_shared<Flight>();
    (*flights)[host]->ranks_left = meeting_.twins_of(host).size();
  }
  std::vector<std::pair<std::int64_t, Fs>> alone;  // ranks that need no other, and when they came
  for (const Group& group : ready.groups) {
    isa::Meeting::Lengths lengths = meeting_.run(group, evaluates_);
    if (group.size() > 1) {
      start(group, std::move(lengths), flights, now);
    } else {
      alone.emplace_back(group.front(), oldest(group.front()).triggered);
    }
  }
  for (const std::int64_t host : ready.hosts) {
    Member& r = member(host);
    if (rounds_ != nullptr) rounds_->started(host, meeting_.oldest(host));
    if (r.module != nullptr) (*flights)[host]->operations = std::move(r.calls.front().operations);
    r.calls.pop_front();
    ++r.started;
    meeting_.leave(host);
  }
  for (const auto& [each, at] : alone) {
    Effect effect{.time = now, .rank = meeting_.host_of(each), .end = at};
    if (ended(*flights, effect)) effects.push_back(std::move(effect));
  }
}

void World::start(const Group& group, isa::Meeting::Lengths lengths,
                  const std::shared_ptr<Flights>& flights, Fs now) {
  const isa::Inst& inst = meeting_.oldest(group.front());
  isa::Expansion expansion;
  isa::expand(inst, meeting_.program(group.front()).machine(), expansion);
  CollectiveRequest request =
      request_of(inst, expansion.collective, meeting_.cores(), group, world_);
  const bool split = isa::spec(inst).collective.part == isa::Collective::Part::kTrigger;
  for (const std::int64_t r : group) {
    request.triggered.push_back(oldest(r).triggered);
    if (split) request.prepared.push_back(oldest(r).prepared);
  }
  request.lengths = std::move(lengths);
  running_.emplace(links_->start(std::move(request), now), Running{group, flights, group.size()});
}

// True if one more rank ends a device's call for all ranks of the device. They must end at one
// time.
bool World::ended(const Flights& flights, Effect& effect) {
  const auto found = flights.find(effect.rank);
  if (found == flights.end()) return true;  // of another process
  Flight& flight = *found->second;
  if (flight.end == kNever) flight.end = effect.end;
  if (flight.end != effect.end) throw RanksDiffer{};
  if (effect.part != nullptr) flight.part = effect.part;
  effect.part = flight.part;
  effect.flight = found->second;
  return --flight.ranks_left == 0;
}

// fn(effect, what has ended or null) of what a model does until `now`, in its order.
template <typename Model, typename Fn>
void World::effects_of(Model& model, Fs now, const Fn& fn) const {
  std::vector<Collectives::RankDone> done;
  model.advance(now, done);
  for (const Collectives::Moving& m : model.moving()) {
    if (meeting_.host_of(m.rank) != m.rank) continue;  // another one stands for it
    fn(Effect{.time = now, .rank = m.rank, .moving = m}, nullptr);
  }
  for (const Collectives::RankDone& d : done) {
    const Running& running = running_.at(d.id);
    const std::int64_t each = running.group[static_cast<std::size_t>(d.position)];
    Effect effect{.time = now, .rank = meeting_.host_of(each), .end = d.end};
    if (each == effect.rank && running.flights->count(each) != 0) {
      effect.part = std::make_shared<RankPart>(model.part(d.id, d.position));
    }
    fn(std::move(effect), &d);
  }
}

void World::harvest(Fs now, Effects& effects) {
  if (links_ == nullptr) return;
  effects_of(*links_, now, [&](Effect effect, const Collectives::RankDone* done) {
    if (done == nullptr) {
      effects.push_back(std::move(effect));
      return;
    }
    Running& op = running_.at(done->id);
    if (ended(*op.flights, effect)) effects.push_back(std::move(effect));
    if (--op.left > 0) return;
    (void)links_->take(done->id);
    running_.erase(done->id);
  });
}

void World::foresee(Fs limit, Effects& effects) const {
  const std::unique_ptr<Collectives> model = links_ == nullptr ? nullptr : links_->copy();
  if (model == nullptr) return;
  for (Fs at = model->next(); at < limit; at = model->next()) {
    effects_of(*model, at, [&](Effect effect, const Collectives::RankDone* done) {
      if (done != nullptr) {
        const Flights& flights = *running_.at(done->id).flights;
        const auto found = flights.find(effect.rank);
        if (found != flights.end()) effect.flight = found->second;
      }
      effect.early = true;
      effects.push_back(std::move(effect));
    });
  }
}

}  // namespace nkisim::models
