#include "models/world.hpp"

#include <algorithm>

#include "models/collective/call.hpp"

namespace nkisim::models {

WorldRun::WorldRun(sc_core::sc_module_name name, const isa::World& world, const Config& config,
                   SimSession& session)
    : sc_module(name), world_(world), config_(config), session_(session) {}

Hbm& WorldRun::stack(int rank, int cores) {
  const int share = ranks_per_stack(config_, cores), number = rank / share;
  const auto found = stacks_.find(number);
  if (found != stacks_.end()) return found->second;
  const int present = std::min(share, world_.ranks - number * share);
  const int engines = present * cores * config_.dma.engines;
  const double demand = engines * config_.dma.bytes_per_ns;
  return stacks_.try_emplace(number, config_.hbm, demand, engines).first->second;
}

void WorldRun::share_memory(Device& device, const Collectives::Moving& moving, Fs now) const {
  device.hbm().settle(now);
  device.hbm().reserve(moving.start, moving.span, moving.hbm_bytes);
  if (moving.engine_bytes > static_cast<double>(config_.collectives.ring_bytes)) return;
  for (std::size_t c = 0; c < device.cores(); ++c) {
    device.core(c).occupy(moving.engine_bytes / static_cast<double>(device.cores()));
  }
}

void WorldRun::finish(Device& device, const std::vector<Operation*>& operations, Fs end,
                      const RankPart* part) {
  for (std::size_t c = 0; c < device.cores(); ++c) {
    device.core(c).finish_collective(*operations[c], end, part);
  }
}

void WorldRun::check_nobody_waits(const std::vector<isa::WaitingRank>& waiting) {
  const bool stuck = std::any_of(waiting.begin(), waiting.end(),
                                 [](const isa::WaitingRank& w) { return w.inst != nullptr; });
  if (stuck) isa::fail_deadlock(waiting);
}

WholeWorld::WholeWorld(sc_core::sc_module_name name, const isa::World& world, const Config& config,
                       SimSession& session)
    : WorldRun(name, world, config, session),
      owner_(static_cast<std::size_t>(world.ranks)),
      waiting_(static_cast<std::size_t>(world.ranks)) {
  SC_HAS_PROCESS(WholeWorld);
  SC_METHOD(step);
}

void WholeWorld::add(Device& device, const std::vector<int>& twins) {
  Rank rank{.device = &device, .calls = {}, .next = {}, .represents = {device.rank()}};
  rank.next.resize(device.cores());
  for (const int twin : twins) rank.represents.push_back(twin);
  for (const std::int64_t each : rank.represents) {
    owner_.at(static_cast<std::size_t>(each)) = ranks_.size();
    waiting_.at(static_cast<std::size_t>(each)) = {.rank = each, .program = &device.program()};
  }
  ranks_.push_back(std::move(rank));
}

int ranks_per_stack(const Config& config, int cores) {
  return std::max(1, config.topology.cores_per_stack / std::max(1, cores));
}

void WholeWorld::put(Later later) {
  later.number = scheduled_++;
  later_.push(std::move(later));
  wake_.notify(sc_core::SC_ZERO_TIME);
}

void WholeWorld::trigger(Device& device, std::size_t core, Operation& op, Fs at) {
  const std::size_t rank = owner_.at(static_cast<std::size_t>(device.rank()));
  put({at, 0, rank, core, {.operations = {&op}, .arrived = 1, .triggered = at}, false});
}

void WholeWorld::step() {
  if (session_.stopped()) return;
  try {
    const Fs now = SimSession::now();
    finish_ranks(now);
    while (!later_.empty() && later_.top().time <= now) {
      const Later l = later_.top();
      later_.pop();
      if (l.ends) {
        finish(*ranks_[l.rank].device, l.call.operations, l.time, nullptr);
      } else {
        arrive(l);
      }
    }
    start_ready();
    finish_ranks(now);
    Fs next = later_.empty() ? kNever : later_.top().time;
    if (model_ != nullptr) next = std::min(next, model_->next());
    if (next == kNever) {
      next_trigger(wake_);
    } else {
      next_trigger(SimSession::time(std::max<Fs>(0, next - now)), wake_);
    }
  } catch (...) {
    session_.fail(std::current_exception());
  }
}

// Ranks that have finished their parts of operations. What one device stands for must do so at one
// time.
void WholeWorld::finish_ranks(Fs now) {
  if (model_ == nullptr) return;
  std::vector<Collectives::RankDone> done;
  model_->advance(now, done);
  for (const Collectives::Moving& m : model_->moving()) {
    Device& device = *ranks_[owner_[static_cast<std::size_t>(m.rank)]].device;
    if (device.rank() == m.rank) share_memory(device, m, now);  // else another one stands for it
  }
  for (const Collectives::RankDone& d : done) {
    Running& op = running_.at(d.id);
    const std::size_t at =
        owner_[static_cast<std::size_t>(op.group[static_cast<std::size_t>(d.position)])];
    InFlight& flight = op.flights->at(at);
    if (flight.end == kNever) flight.end = d.end;
    if (flight.end != d.end) throw NotAlike{};
    if (op.group[static_cast<std::size_t>(d.position)] == ranks_[at].device->rank()) {
      flight.part = std::make_shared<RankPart>(model_->part(d.id, d.position));
    }
    if (--flight.ranks_left == 0) {
      finish(*ranks_[at].device, flight.call.operations, d.end, flight.part.get());
    }
    if (--op.left > 0) continue;
    (void)model_->take(d.id);
    running_.erase(d.id);
  }
}

void WholeWorld::arrive(const Later& arrival) {
  Rank& rank = ranks_[arrival.rank];
  const std::size_t at = rank.next[arrival.core]++;
  while (rank.calls.size() <= at) rank.calls.push_back({.operations = {}, .arrived = 0});
  Call& call = rank.calls[at];
  call.operations.resize(rank.device->cores());
  call.operations[arrival.core] = arrival.call.operations.front();
  ++call.arrived;
  call.triggered = std::max(call.triggered, arrival.time);
  if (at == 0) look(arrival.rank);
}

// Whether all cores of a rank have come to its oldest call.
void WholeWorld::look(std::size_t at) {
  const Rank& rank = ranks_[at];
  const bool there = !rank.calls.empty() && rank.calls.front().arrived == rank.device->cores();
  for (const std::int64_t each : rank.represents) {
    isa::WaitingRank& w = waiting_[static_cast<std::size_t>(each)];
    w.inst = nullptr;
    if (there) w.come_to(*rank.calls.front().operations.front()->step.inst);
  }
  changed_ = changed_ || there;
}

// Starts every operation whose ranks have all come; one may make way for the next.
void WholeWorld::start_ready() {
  while (changed_) {
    changed_ = false;
    for (std::size_t r = 0; r < waiting_.size(); ++r) {
      if (waiting_[r].inst != nullptr) start(r);
    }
  }
}

// What starts together with a rank's oldest call: its group's operation, and those of the ranks
// that the same devices stand for. False if one of them is not complete.
bool WholeWorld::together(std::size_t rank, std::vector<Group>& groups,
                          std::set<std::size_t>& devices) const {
  std::vector<std::size_t> left = {owner_[rank]};
  std::set<std::int64_t> seen;
  while (!left.empty()) {
    const std::size_t device = left.back();
    left.pop_back();
    if (!devices.insert(device).second) continue;
    for (const std::int64_t each : ranks_[device].represents) {
      if (seen.count(each) != 0) continue;
      const isa::WaitingRank& w = waiting_[static_cast<std::size_t>(each)];
      if (w.inst == nullptr || !isa::complete(w, waiting_)) return false;
      groups.push_back(w.group.empty() ? Group{each} : w.group);
      for (const std::int64_t member : groups.back()) {
        seen.insert(member);
        left.push_back(owner_[static_cast<std::size_t>(member)]);
      }
    }
  }
  return true;
}

void WholeWorld::start(std::size_t rank) {
  std::vector<Group> groups;
  std::set<std::size_t> devices;
  if (!together(rank, groups, devices)) return;
  const auto flights = std::make_shared<std::map<std::size_t, InFlight>>();
  for (const std::size_t device : devices) {
    (*flights)[device].ranks_left = ranks_[device].represents.size();
  }
  std::vector<std::pair<std::int64_t, Fs>> alone;  // ranks that need nobody, and when they came
  for (const Group& group : groups) {
    const auto lengths = exchange(group);
    if (group.size() > 1) {
      start(group, lengths, flights);
    } else {
      alone.emplace_back(group.front(), call_of(group.front()).triggered);
    }
  }
  for (const std::size_t at : devices) {
    Rank& device = ranks_[at];
    (*flights)[at].call = std::move(device.calls.front());
    device.calls.pop_front();
    for (std::size_t& next : device.next) --next;
    look(at);
  }
  for (const auto& [r, at] : alone) {
    const std::size_t device = owner_[static_cast<std::size_t>(r)];
    InFlight& flight = (*flights)[device];
    if (flight.ranks_left != ranks_[device].represents.size() && flight.end != at) throw NotAlike{};
    flight.end = at;
    if (--flight.ranks_left == 0) put({at, 0, device, 0, flight.call, true});
  }
}

const WholeWorld::Call& WholeWorld::call_of(std::int64_t rank) const {
  return ranks_[owner_[static_cast<std::size_t>(rank)]].calls.front();
}

// Values are exchanged now; lengths that they decide are the result.
std::vector<std::vector<std::int64_t>> WholeWorld::exchange(const Group& group) {
  std::vector<isa::RankCalls> calls;
  bool evaluates = true;
  for (const std::int64_t r : group) {
    Rank& rank = ranks_[owner_[static_cast<std::size_t>(r)]];
    evaluates = evaluates && rank.device->evaluates();
    isa::RankCalls& call = calls.emplace_back();
    for (std::size_t c = 0; c < rank.device->cores(); ++c) {
      call.push_back(
          {r, rank.calls.front().operations[c]->step.inst, &rank.device->core(c).context()});
    }
  }
  const bool takes_part = !waiting_[static_cast<std::size_t>(group.front())].group.empty();
  if (!takes_part || !evaluates) {
    isa::check_collective(calls);
    return {};
  }
  std::vector<std::vector<std::int64_t>> lengths = isa::lengths_of(calls);
  isa::run_collective(calls, world_);
  return lengths;
}

void WholeWorld::start(const Group& group, const Lengths& lengths,
                       const std::shared_ptr<std::map<std::size_t, InFlight>>& flights) {
  const Call& call = call_of(group.front());
  const Operation& first = *call.operations.front();
  CollectiveRequest request = request_of(*first.step.inst, first.expansion.collective,
                                         call.operations.size(), group, world_);
  for (const std::int64_t r : group) request.triggered.push_back(call_of(r).triggered);
  request.lengths = lengths;
  if (model_ == nullptr) {
    const auto lnc = static_cast<int>(call.operations.size());
    model_ = std::make_unique<Collectives>(config_, lnc, world_.ranks);
  }
  const Collectives::Id id = model_->start(std::move(request), SimSession::now());
  running_.emplace(id, Running{group, flights, group.size()});
}

void WholeWorld::check_finished() const {
  for (const Rank& rank : ranks_) {
    if (rank.calls.empty() || rank.calls.front().arrived == rank.device->cores()) continue;
    for (const Operation* op : rank.calls.front().operations) {
      if (op != nullptr) isa::fail_alone(rank.device->program(), *op->step.inst, nullptr);
    }
  }
  check_nobody_waits(waiting_);
}

std::vector<RunResult> run_world(std::span<const RankSetup> ranks, const Config& config,
                                 const isa::World& world) {
  const isa::Program* program = ranks.front().program;  // of an error
  try {
    SimSession session;
    for (const RankSetup& rank : ranks) rank.observers.start(*rank.program, config);
    WholeWorld run("world", world, config, session);
    std::vector<std::unique_ptr<Device>> devices;
    for (const RankSetup& rank : ranks) {
      RunOptions options = rank.options;
      options.world = world;
      devices.push_back(std::make_unique<Device>(*rank.program, config, rank.memory, rank.observers,
                                                 options, session, run));
      run.add(*devices.back(), rank.twins);
    }
    session.run();
    std::vector<RunResult> results;
    bool stopped = false;
    for (const auto& device : devices) stopped = stopped || device->result().stopped;
    if (!stopped) run.check_finished();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      program = ranks[i].program;
      if (!stopped) devices[i]->check_finished();
      results.push_back(devices[i]->result());
      results.back().stopped = stopped;
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      program = ranks[i].program;
      ranks[i].observers.end({results[i].end, stopped});
      const RunOptions& options = ranks[i].options;
      if (ranks[i].memory == nullptr || stopped) continue;
      if (options.unwritten != isa::Unwritten::kError) continue;
      isa::check_outputs(*program, *ranks[i].memory, options.undefined_output);
    }
    return results;
  } catch (isa::Error& e) {
    program->locate(e);
    throw;
  }
}

RunResult run(const isa::Program& program, const Config& config, isa::Memory* memory,
              const ObserverList& observers, const RunOptions& options) {
  const RankSetup alone{&program, memory, observers, options, {}};
  isa::World world = options.world;
  world.ranks = 1;
  return run_world({&alone, 1}, config, world).front();
}

}  // namespace nkisim::models
