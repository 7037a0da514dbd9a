#include "models/world.hpp"

#include <algorithm>
#include <utility>

#include "models/collective/call.hpp"
#include "models/rounds.hpp"

namespace nkisim::models {

int ranks_per_stack(const Config& config, int cores) {
  return std::max(1, config.topology.cores_per_stack / std::max(1, cores));
}

bool World::Effect::same(const Effect& other) const {
  return time == other.time && rank == other.rank && flight == other.flight && end == other.end &&
         moving.start == other.moving.start && moving.span == other.moving.span &&
         moving.hbm_bytes == other.moving.hbm_bytes &&
         moving.engine_bytes == other.moving.engine_bytes;
}

World::World(sc_core::sc_module_name name, const isa::World& world, const Config& config,
             SimSession& session, const isa::Shard& shard,
             const std::vector<const isa::Program*>& programs)
    : sc_module(name),
      world_(world),
      config_(config),
      session_(session),
      meeting_(world, programs),
      ranks_(programs.size()) {
  if (!shard.alone()) {
    rounds_ = std::make_unique<Rounds>(*this, shard, config, session, programs);
  }
  SC_HAS_PROCESS(World);
  SC_METHOD(step);
}

World::~World() = default;

void World::add(Device& device, const std::vector<int>& twins) {
  std::vector<isa::EvalContext*> contexts;
  for (std::size_t c = 0; c < device.cores(); ++c) contexts.push_back(&device.core(c).context());
  meeting_.host(device.rank(), std::move(contexts), twins);
  rank(device.rank()).device = &device;
  evaluates_ = evaluates_ || device.evaluates();
}

void World::run() {
  if (rounds_ != nullptr) {
    rounds_->run();
  } else {
    session_.run();
  }
}

// ---- what devices share -----------------------------------------------------------------------
Hbm& World::stack(int rank, int cores) {
  const int share = ranks_per_stack(config_, cores), number = rank / share;
  const auto found = stacks_.find(number);
  if (found != stacks_.end()) return found->second;
  const int present = std::min(share, world_.ranks - number * share);
  const int engines = present * cores * config_.dma.engines;
  const double demand = engines * config_.dma.bytes_per_ns;
  return stacks_.try_emplace(number, config_.hbm, demand, engines).first->second;
}

// What an operation begins to move takes its part of the stack that the device's own transfers
// use, and of its DMA engines.
void World::share_memory(Device& device, const Collectives::Moving& moving, Fs now) const {
  device.hbm().settle(now);
  device.hbm().reserve(moving.start, moving.span, moving.hbm_bytes);
  if (moving.engine_bytes > static_cast<double>(config_.collectives.ring_bytes)) return;
  for (std::size_t c = 0; c < device.cores(); ++c) {
    device.core(c).occupy(moving.engine_bytes / static_cast<double>(device.cores()));
  }
}

void World::apply(const Effect& effect) {
  Device& device = *rank(effect.rank).device;
  if (effect.end == kNever) {
    share_memory(device, effect.moving, effect.time);
    return;
  }
  for (std::size_t c = 0; c < device.cores(); ++c) {
    device.core(c).finish_collective(*effect.flight->operations[c], effect.end, effect.part.get());
  }
}

// ---- calls ------------------------------------------------------------------------------------
World::Call& World::call(Rank& rank, std::uint64_t number) {
  while (rank.calls.size() <= number - rank.started) {
    rank.calls.push_back({.operations = std::vector<Operation*>(meeting_.cores())});
  }
  return rank.calls[number - rank.started];
}

const World::Call& World::oldest(std::int64_t each) {
  return rank(meeting_.host_of(each)).calls.front();
}

std::uint64_t World::note(const isa::Post::Called& called) {
  const std::uint64_t number = meeting_.note(called.rank, called.core, *called.inst);
  Call& c = call(rank(called.rank), number);
  c.triggered = std::max(c.triggered, called.time);
  c.prepared = std::max(c.prepared, called.prepared);
  arrivals_.push({called.time, called.rank, number});
  return number;
}

void World::trigger(Device& device, std::size_t core, Operation& op, Fs at) {
  const std::int64_t r = device.rank();
  if (rounds_ != nullptr) rounds_->check_trigger(r, at);
  const isa::Post::Called called{.rank = r,
                                 .core = core,
                                 .inst = op.step.inst,
                                 .time = at,
                                 .prepared = device.core(core).prepared()};
  const std::uint64_t number = note(called);
  call(rank(r), number).operations[core] = &op;
  if (rounds_ != nullptr) {
    rounds_->triggered(called, number);
  } else {
    wake_.notify(sc_core::SC_ZERO_TIME);
  }
}

void World::step() {
  if (session_.stopped()) return;
  try {
    const Fs now = SimSession::now();
    if (rounds_ != nullptr) {
      rounds_->apply_effects(now);
      next_trigger(rounds_->wake());
      return;
    }
    Effects effects;
    record(now, effects);
    for (const Effect& effect : effects) apply(effect);
    const Fs next = std::min(next_arrival(), next_of_model());
    if (next == kNever) {
      next_trigger(wake_);
    } else {
      next_trigger(SimSession::time(std::max<Fs>(0, next - now)), wake_);
    }
  } catch (...) {
    session_.fail(std::current_exception());
  }
}

// ---- the record -------------------------------------------------------------------------------
void World::record(Fs now, Effects& effects) {
  harvest(now, effects);
  if (next_arrival() > now) return;
  while (next_arrival() <= now) {
    meeting_.arrive(arrivals_.top().rank, arrivals_.top().call);
    arrivals_.pop();
  }
  // One that starts may make way for the next.
  while (meeting_.changed()) {
    for (std::int64_t r = 0; r < meeting_.ranks(); ++r) {
      if (meeting_.waits(r)) start(r, now, effects);
    }
  }
  harvest(now, effects);
}

// What starts together with a rank's oldest call, if all have come.
void World::start(std::int64_t first, Fs now, Effects& effects) {
  const isa::Meeting::Ready ready = meeting_.ready(first);
  if (ready.groups.empty()) return;
  const auto flights = std::make_shared<Flights>();
  for (const std::int64_t host : ready.hosts) {
    if (rank(host).device == nullptr) continue;
    (*flights)[host] = std::make_shared<Flight>();
    (*flights)[host]->ranks_left = meeting_.twins_of(host).size();
  }
  std::vector<std::pair<std::int64_t, Fs>> alone;  // ranks that need nobody, and when they came
  for (const Group& group : ready.groups) {
    isa::Meeting::Lengths lengths = meeting_.run(group, evaluates_);
    if (group.size() > 1) {
      start(group, std::move(lengths), flights, now);
    } else {
      alone.emplace_back(group.front(), oldest(group.front()).triggered);
    }
  }
  for (const std::int64_t host : ready.hosts) {
    Rank& r = rank(host);
    if (rounds_ != nullptr) rounds_->started(host, meeting_.oldest(host));
    if (r.device != nullptr) (*flights)[host]->operations = std::move(r.calls.front().operations);
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
  if (model_ == nullptr) {
    model_ =
        std::make_unique<Collectives>(config_, static_cast<int>(meeting_.cores()), world_.ranks);
  }
  running_.emplace(model_->start(std::move(request), now), Running{group, flights, group.size()});
}

// Whether a device's call has ended on all ranks that it stands for, with one more of them; they
// must do so at one time.
bool World::ended(const Flights& flights, Effect& effect) {
  const auto found = flights.find(effect.rank);
  if (found == flights.end()) return true;  // of another process
  Flight& flight = *found->second;
  if (flight.end == kNever) flight.end = effect.end;
  if (flight.end != effect.end) throw NotAlike{};
  if (effect.part != nullptr) flight.part = effect.part;
  effect.part = flight.part;
  effect.flight = found->second;
  return --flight.ranks_left == 0;
}

// fn(effect, what has ended or null) of what a model does until `now`, in its order.
template <typename Fn>
void World::effects_of(Collectives& model, Fs now, const Fn& fn) const {
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
  if (model_ == nullptr) return;
  effects_of(*model_, now, [&](Effect effect, const Collectives::RankDone* done) {
    if (done == nullptr) {
      effects.push_back(std::move(effect));
      return;
    }
    Running& op = running_.at(done->id);
    if (ended(*op.flights, effect)) effects.push_back(std::move(effect));
    if (--op.left > 0) return;
    (void)model_->take(done->id);
    running_.erase(done->id);
  });
}

void World::foresee(Fs limit, Effects& effects) const {
  if (model_ == nullptr) return;
  Collectives model(*model_);
  for (Fs at = model.next(); at < limit; at = model.next()) {
    effects_of(model, at, [&](Effect effect, const Collectives::RankDone* done) {
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
