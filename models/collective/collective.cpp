// Simulates collective operations phase by phase, as they share links and HBM stacks.
#include "models/collective/collective.hpp"

#include <algorithm>

#include "isa/base/error.hpp"

namespace nkisim::models {
namespace {

void add_phase(std::vector<PhaseTime>& phases, CollectivePhase phase, Fs start, Fs end) {
  if (end > start) phases.push_back({phase, start, end});
}

template <typename T>
auto& at(T& list, int i) {
  return list.at(static_cast<std::size_t>(i));
}

std::vector<double> rates_of(const Config& config, const Topology& topology) {
  return topology.rates(config.hbm.bytes_per_ns, config.dma.engines * config.dma.bytes_per_ns);
}

void check(const CollectiveRequest& request, int ranks) {
  if (request.ranks.empty() || request.triggered.size() != request.ranks.size()) {
    isa::fail(isa::Rule::collective_model, "collective",
              std::to_string(request.triggered.size()) + " trigger times",
              "one for each of its " + std::to_string(request.ranks.size()) + " ranks");
  }
  for (const int rank : request.ranks) {
    if (rank >= 0 && rank < ranks) continue;
    isa::fail(isa::Rule::collective_model, "collective", "rank " + std::to_string(rank),
              "a rank of the world of " + std::to_string(ranks));
  }
  for (const auto& [source, target] : request.pairs) {
    const auto n = static_cast<int>(request.ranks.size());
    if (source >= 0 && source < n && target >= 0 && target < n) continue;
    isa::fail(isa::Rule::collective_model, "collective", "a pair outside the group",
              "positions below " + std::to_string(n));
  }
}

}  // namespace

struct Collectives::Operation {
  Id id = 0;
  CollectiveRequest request;
  CollectiveTiming timing;
  std::vector<Leg> legs;
  std::vector<int> legs_left;         // by position
  std::vector<bool> started, queued;  // by position; queued: behind another one of its stream
  std::size_t unfinished = 0;
};

Collectives::Collectives(std::reference_wrapper<const Config> config, int lnc, int ranks)
    : config_(config),
      topology_(config.get().topology, lnc, ranks),
      planner_(config.get().collectives, topology_, rates_of(config, topology_)),
      flows_(rates_of(config, topology_)) {}

Collectives::Collectives(const Collectives& other)
    : config_(other.config_),
      topology_(other.topology_),
      planner_(config_.collectives, topology_, rates_of(config_, topology_)),
      flows_(other.flows_),
      clock_(other.clock_),
      next_id_(other.next_id_),
      operations_(other.operations_),
      streams_(other.streams_),
      events_(other.events_),
      scheduled_(other.scheduled_),
      flow_of_(other.flow_of_),
      next_flow_(other.next_flow_),
      done_(other.done_),
      moving_(other.moving_) {}

Collectives::~Collectives() = default;

// start_rank() lets a rank wait for the trigger delay, begin() a group or pair for its last rank,
// and what comes first then is the handshake, or what begin() leaves of it
// (nothing of one that was prepared). An operation that
// starts because another one made way for it waits for that one's end on the rank that both have.
Fs Collectives::lookahead(const CollectiveConfig& config, CollectiveKind kind, bool prepared) {
  const bool group =
      kind != CollectiveKind::kBarrier && kind != CollectiveKind::kPermute && !prepared;
  if (!group) return config.trigger_delay;
  const auto handshake = static_cast<double>(config.handshake);
  const auto left = static_cast<Fs>(handshake * (1 - config.handshake_overlap));
  return config.trigger_delay + std::clamp<Fs>(left, 0, config.handshake);
}

// Everybody has to come before anybody can finish.
void Collectives::add_group_leg(Operation& op) const {
  const CollectiveConfig& c = config_.collectives;
  const CollectiveRequest& request = op.request;
  Leg leg;
  for (int i = 0; i < static_cast<int>(request.ranks.size()); ++i) leg.positions.push_back(i);
  if (request.kind == CollectiveKind::kBarrier) {
    leg.items.push_back({CollectivePhase::kStep, c.barrier});
    op.legs.push_back(std::move(leg));
    return;
  }
  leg.items.push_back({CollectivePhase::kHandshake, c.handshake});
  const double chunk = chunk_bytes(request);
  const Choice choice = planner_.choose(request);
  Fs base = at(c.algorithms, static_cast<int>(choice.algorithm)).base + choice.waiting;
  for (const PlanPhase& p : planner_.plan(request, choice).phases) {
    const AlgorithmConfig& a = at(c.algorithms, static_cast<int>(p.algorithm));
    Item item{CollectivePhase::kStep, base + latency_of(p, c)};
    base = 0;
    item.loads = times(p.loads, chunk);
    item.least = flows_.alone(item.loads, p.reduces ? a.reduce_share : a.gather_share);
    merge(op.timing.loads, item.loads);
    const int steps = p.steps + p.network_steps;
    op.timing.steps += steps;
    op.timing.parts.push_back({p.algorithm, p.reduces, steps, item.latency, item.least});
    leg.items.push_back(std::move(item));
  }
  op.legs.push_back(std::move(leg));
}

// A transfer needs its two ranks only.
void Collectives::add_pair_leg(Operation& op, int source, int target) const {
  const CollectiveConfig& c = config_.collectives;
  const AlgorithmConfig& a = at(c.algorithms, static_cast<int>(Algorithm::kDirect));
  const int from_rank = at(op.request.ranks, source), to_rank = at(op.request.ranks, target);
  const Place from = topology_.place(from_rank), to = topology_.place(to_rank);
  const bool across = from.chip != to.chip || from.die != to.die;
  const auto bytes = static_cast<double>(
      op.request.lengths.empty() ? op.request.bytes : at(at(op.request.lengths, source), target));
  LoadSum sum(topology_);
  sum.send(from.chip, to.chip, bytes);
  if (op.request.memory == isa::Space::kHbm) {
    sum.add(topology_.stack(from_rank), bytes);
    sum.add(topology_.stack(to_rank), bytes);
  }
  sum.add(topology_.engines(from_rank), bytes);
  const Fs step = from.server != to.server ? c.network_step : a.step;
  Item data{CollectivePhase::kStep, a.base + step + (across ? c.across_dies : 0)};
  data.loads = sum.loads();
  const double rate = across ? c.pair_across_dies_bytes_per_ns : c.pair_bytes_per_ns;
  data.least = std::max(flows_.alone(data.loads, a.gather_share), from_ns(bytes / rate));
  merge(op.timing.loads, data.loads);
  Leg leg;
  leg.positions = {source, target};
  if (source == target) leg.positions.pop_back();
  leg.items = {{CollectivePhase::kHandshake, c.handshake}, std::move(data)};
  op.legs.push_back(std::move(leg));
}

Collectives::Id Collectives::start(CollectiveRequest request, Fs now) {
  check(request, topology_.ranks());
  process(now);
  clock_ = now;
  const Id id = next_id_++;
  Operation& op = operations_[id];
  op.id = id;
  op.request = std::move(request);
  const std::size_t n = op.request.ranks.size();
  op.timing = {.algorithm = select(op.request),
               .input_bytes = input_bytes(op.request),
               .output_bytes = output_bytes(op.request)};
  op.timing.ranks.resize(n);
  op.legs_left.resize(n);
  op.started.resize(n);
  op.queued.resize(n);
  op.unfinished = n;
  if (op.request.kind == CollectiveKind::kPermute) {
    op.timing.steps = 1;
    for (const auto& [source, target] : op.request.pairs) add_pair_leg(op, source, target);
  } else {
    add_group_leg(op);
  }
  for (const Leg& leg : op.legs) {
    for (const int position : leg.positions) ++at(op.legs_left, position);
  }
  for (int i = 0; i < static_cast<int>(n); ++i) {
    if (at(op.legs_left, i) != 0) continue;
    op.legs.push_back({.positions = {i}});  // a rank in no pair
    op.legs_left[static_cast<std::size_t>(i)] = 1;
  }
  std::vector<int> first;
  for (int i = 0; i < static_cast<int>(n); ++i) {
    std::deque<Id>& stream = streams_[{at(op.request.ranks, i), op.request.stream}];
    if (stream.empty()) first.push_back(i);
    stream.push_back(id);
  }
  for (const int position : first) start_rank(op, position, 0);
  return id;
}

// The rank's stream is free since `previous_end`.
void Collectives::start_rank(Operation& op, int position, Fs previous_end) {
  RankTiming& r = at(op.timing.ranks, position);
  r.triggered = at(op.request.triggered, position);
  const Fs triggered = r.triggered + config_.collectives.trigger_delay;
  r.start = std::max(triggered, previous_end);
  op.queued[static_cast<std::size_t>(position)] = triggered < previous_end;
  op.started[static_cast<std::size_t>(position)] = true;
  for (int leg = 0; leg < static_cast<int>(op.legs.size()); ++leg) {
    const std::vector<int>& all = at(op.legs, leg).positions;
    if (std::find(all.begin(), all.end(), position) == all.end()) continue;
    if (std::all_of(all.begin(), all.end(),
                    [&](int p) { return op.started[static_cast<std::size_t>(p)]; })) {
      begin(op, leg);
    }
  }
}

void Collectives::begin(Operation& op, int number) {
  Leg& leg = at(op.legs, number);
  int last = leg.positions.front();
  bool queued = true;
  for (const int p : leg.positions) {
    if (at(op.timing.ranks, p).start > at(op.timing.ranks, last).start) last = p;
    queued = queued && op.queued[static_cast<std::size_t>(p)];
  }
  leg.ready = leg.at = at(op.timing.ranks, last).start;
  if (queued && !leg.items.empty() && leg.items.front().phase == CollectivePhase::kHandshake) {
    Fs& handshake = leg.items.front().latency;
    handshake = static_cast<Fs>(static_cast<double>(handshake) *
                                (1 - config_.collectives.handshake_overlap));
  }
  if (!op.request.prepared.empty()) set_up(op, leg);
  for (const int p : leg.positions) {
    RankTiming& r = at(op.timing.ranks, p);
    if (leg.ready < r.ready) continue;
    r.ready = leg.ready;
    r.waited_for = r.start < leg.ready ? at(op.request.ranks, last) : -1;
  }
  schedule(op, number);
}

// Subtracts the part of the handshake that the first of two instructions has begun already.
void Collectives::set_up(const Operation& op, Leg& leg) const {
  Fs begun = 0;
  for (const int p : leg.positions) begun = std::max(begun, at(op.request.prepared, p));
  Fs& left = leg.items.front().latency;
  const Fs share = static_cast<Fs>(static_cast<double>(config_.collectives.handshake) *
                                   config_.collectives.prepare_share);
  const Fs done = leg.ready - begun - config_.collectives.trigger_delay;
  left = std::max<Fs>(0, left - std::clamp<Fs>(done, 0, share));
}

void Collectives::schedule(Operation& op, int number) {
  const Leg& leg = at(op.legs, number);
  const Fs latency = leg.item < leg.items.size() ? leg.items[leg.item].latency : 0;
  events_.push({std::max(clock_, leg.at + latency), scheduled_++, op.id, number});
}

void Collectives::step(const Event& event) {
  Operation& op = operations_.at(event.id);
  Leg& leg = at(op.legs, event.leg);
  if (leg.item == leg.items.size()) return finish(op, event.leg, event.time);
  Item& item = leg.items[leg.item];
  const Fs end = leg.at + item.latency;  // before event.time if the leg began in the past
  add_phase(leg.phases, item.phase, leg.at, end);
  leg.at = end;
  if (item.least > 0) {
    note_moving(op, leg, item, event.time);
    flow_of_[next_flow_] = {event.id, event.leg};
    flows_.start(event.time, next_flow_++, item.least, std::move(item.loads), op.request.priority);
    return;
  }
  ++leg.item;
  schedule(op, event.leg);
}

// A stack's bytes belong in equal parts to the ranks of the operation that share it.
void Collectives::note_moving(const Operation& op, const Leg& leg, const Item& item, Fs start) {
  std::map<ServerId, double> bytes;
  for (const ServerLoad& l : item.loads) bytes[l.server] = l.bytes;
  std::map<ServerId, int> sharing;
  for (const int p : leg.positions) ++sharing[topology_.stack(at(op.request.ranks, p))];
  for (const int p : leg.positions) {
    const int rank = at(op.request.ranks, p);
    const ServerId stack = topology_.stack(rank);
    moving_.push_back({rank, op.request.stream, start, item.least, bytes[stack] / sharing[stack],
                       bytes[topology_.engines(rank)]});
  }
}

std::vector<Collectives::Moving> Collectives::moving() {
  std::vector<Moving> list;
  list.swap(moving_);
  return list;
}

void Collectives::flowed(const Flows::Ended& ended) {
  const auto flow = flow_of_.extract(ended.id);
  Operation& op = operations_.at(flow.mapped().first);
  Leg& leg = at(op.legs, flow.mapped().second);
  add_phase(leg.phases, CollectivePhase::kData, leg.at, ended.time);
  leg.at = ended.time;
  ++leg.item;
  schedule(op, flow.mapped().second);
}

void Collectives::finish(Operation& op, int number, Fs now) {
  const Leg& leg = at(op.legs, number);
  for (const int p : leg.positions) {
    if (--op.legs_left[static_cast<std::size_t>(p)] != 0) continue;
    RankTiming& r = at(op.timing.ranks, p);
    r.end = now;
    add_phase(r.phases, CollectivePhase::kWaiting, r.start, leg.ready);
    r.phases.insert(r.phases.end(), leg.phases.begin(), leg.phases.end());
    --op.unfinished;
    done_.push_back({now, op.id, p});
    std::deque<Id>& stream = streams_[{at(op.request.ranks, p), op.request.stream}];
    stream.pop_front();
    if (stream.empty()) continue;
    Operation& next = operations_.at(stream.front());
    const std::vector<int>& ranks = next.request.ranks;
    const auto position = std::find(ranks.begin(), ranks.end(), at(op.request.ranks, p));
    start_rank(next, static_cast<int>(position - ranks.begin()), now);
  }
}

Fs Collectives::next() const {
  if (!done_.empty()) return clock_;
  return std::min(flows_.next(), events_.empty() ? kNever : events_.top().time);
}

void Collectives::process(Fs now) {
  std::vector<Flows::Ended> ended;
  for (;;) {
    const Fs flow = flows_.next(), event = events_.empty() ? kNever : events_.top().time;
    const Fs first = std::min(flow, event);
    if (first == kNever || first > now) return;
    clock_ = std::max(clock_, first);
    if (flow <= event) {
      ended.clear();
      flows_.advance(flow, ended);
      for (const Flows::Ended& e : ended) flowed(e);
    } else {
      const Event e = events_.top();
      events_.pop();
      step(e);
    }
  }
}

void Collectives::advance(Fs now, std::vector<RankDone>& done) {
  process(now);
  done.insert(done.end(), done_.begin(), done_.end());
  done_.clear();
}

RankPart Collectives::part(Id id, int position) const {
  const Operation& op = operations_.at(id);
  return {.id = id,
          .kind = op.request.kind,
          .algorithm = op.timing.algorithm,
          .dtype = op.request.dtype,
          .stream = op.request.stream,
          .group = op.request.ranks,
          .input_bytes = op.timing.input_bytes,
          .output_bytes = op.timing.output_bytes,
          .timing = at(op.timing.ranks, position)};
}

CollectiveTiming Collectives::take(Id id) {
  const auto known = operations_.find(id);
  if (known == operations_.end() || known->second.unfinished != 0) {
    isa::fail(isa::Rule::collective_model, "collective", "operation " + std::to_string(id),
              "one that has ended");
  }
  CollectiveTiming timing = std::move(known->second.timing);
  operations_.erase(known);
  return timing;
}

CollectiveTiming Collectives::alone(const CollectiveRequest& request) const {
  Collectives world(config_, topology_.lnc(), topology_.ranks());
  check(request, topology_.ranks());
  const Id id =
      world.start(request, *std::max_element(request.triggered.begin(), request.triggered.end()));
  world.process(kNever - 1);
  return world.take(id);
}

}  // namespace nkisim::models
