// Charges each wait and each busy time of an engine to its cause.

#include "src/report/accounting.hpp"

#include <algorithm>

#include "isa/base/stable_order.hpp"

namespace nkisim {

using models::Fs;
using models::kNoQueue;

namespace {
namespace of_accounting {

// At least so many instructions of an engine, or transfers of a queue, stay; at most twice as many.
constexpr std::size_t kKept = std::size_t{1} << 16U;

// Forgets the first kKept records where there are twice as many, and returns the latest end of one.
template <typename Records, typename Ended>
Fs forget(Records& records, Ended&& ended) {
  Fs latest = 0;
  if (records.size() < 2 * kKept) return latest;
  const auto kept = records.begin() + static_cast<std::ptrdiff_t>(kKept);
  for (auto r = records.begin(); r != kept; ++r) latest = std::max(latest, (*r).*ended);
  records.erase(records.begin(), kept);
  return latest;
}

// Says the same of all records of a run, none of which is forgotten.
template <typename Records, typename Ended>
Fs forgettable(const Records& records, Ended&& ended) {
  Fs latest = 0;
  for (std::size_t i = 0; i + kKept < records.size() / kKept * kKept; ++i) {
    latest = std::max(latest, records[i].*ended);
  }
  return latest;
}

// Adds to records in order of their sequences; most come in this order.
template <typename Record>
void add_in_order(std::vector<Record>& records, const Record& record) {
  auto at = records.end();
  while (at != records.begin() && std::prev(at)->sequence > record.sequence) --at;
  records.insert(at, record);
}

template <typename Record>
const Record* find(const std::vector<Record>& records, std::uint64_t sequence) {
  const auto found =
      std::partition_point(records.begin(), records.end(),
                           [sequence](const Record& r) { return r.sequence < sequence; });
  return found == records.end() || found->sequence != sequence ? nullptr : &*found;
}

}  // namespace of_accounting
}  // namespace

std::string_view name(Cause cause) {
  constexpr std::array<std::string_view, kCauseCount> kNames = {
      "busy",     "throttle",    "fixed_latency", "wait_engine", "wait_dma",
      "hbm",      "dma_latency", "dma_engines",   "port",        "semaphore",
      "own_path", "issue",       "end",           "wait_rank",   "collective"};
  return kNames.at(static_cast<std::size_t>(cause));
}

std::string Accounting::describe(int core_id, Charge charge) const {
  const Core& c = cores_.at(static_cast<std::size_t>(core_id));
  const std::string who = charge.second < c.queues.size() ? c.queues[charge.second].name : "?";
  switch (charge.first) {
    case Cause::kWaitRank:
      return "waiting for rank " + std::to_string(charge.second);
    case Cause::kCollective:
      return "in collective";
    case Cause::kBusy:
      return "busy";
    case Cause::kThrottle:
      return "utilisation limit";
    case Cause::kFixed:
      return "fixed latency";
    case Cause::kWaitEngine:
      return "waiting for " + who;
    case Cause::kWaitDma:
      return "waiting for DMA queue " + who;
    case Cause::kHbm:
      return "HBM bandwidth";
    case Cause::kDmaLatency:
      return "latency of DMA queue " + who;
    case Cause::kDmaEngines:
      return "DMA engines serving other queues";
    case Cause::kPort:
      return "memory port held by " + who;
    case Cause::kSemaphore:
      return "semaphore";
    case Cause::kOwnPath:
      return "own data path";
    case Cause::kIssue:
      return "issue";
    case Cause::kEnd:
      return partial_ ? "unfinished when the run was interrupted" : "idle after the end";
  }
  return {};
}

void Accounting::on_start(const isa::Program& program, const models::Config& config) {
  program_ = &program;
  config_ = &config;
  if (keeps_ == Keeps::kAll) costs_ = std::make_unique<models::CostTable>(config, program);
  cores_.clear();
  cores_.resize(static_cast<std::size_t>(program.cores()));
}

void Accounting::on_queue(const models::QueueName& queue) {
  auto& queues = core(queue.core).queues;
  queues.resize(std::max<std::size_t>(queues.size(), queue.index + 1U));
  queues[queue.index].name = queue.name;
}

void Accounting::Engine::close() {
  if (closed[0].size() == parts.size()) return;
  for (std::size_t c = 0; c < kCauseCount; ++c) closed.at(c).add(last.at(c));
  last = {};
}

// A transfer loses this much of its time to the memory (the stall fractions are surcharges).
Fs Accounting::hbm_share(Fs time, const TransferRecord& t) const {
  const double writes = t.writes_hbm ? config_->dma.hbm_write_stall_fraction : 0;
  const double f = t.reads_hbm ? config_->dma.hbm_stall_fraction : writes;
  return static_cast<Fs>(static_cast<double>(time) * f / (1 + f));
}

void Accounting::charge(Engine& engine, Charge charge, Fs until) {
  if (until <= engine.charged) return;
  const Fs time = until - engine.charged;
  Engine::Recent& recent = engine.recent.at(static_cast<std::size_t>(charge.first));
  if (recent.time == nullptr || recent.where != charge.second) {
    recent = {charge.second, &engine.total[charge]};
  }
  *recent.time += time;
  engine.last.at(static_cast<std::size_t>(charge.first)) += time;
  engine.charged = until;
}

// The wait for a transfer, cut at the transfer's own milestones.
void Accounting::charge_transfer(const Core& c, Engine& engine, const models::Wait& w, Fs until) {
  const models::QueueIndex q = w.producer;
  const Queue& queue = c.queues.at(q);
  if (const auto* collective = queue.collective(w.producer_sequence)) {
    charge_collective(engine, *collective, until);
    return;
  }
  const TransferRecord* found = queue.transfer(w.producer_sequence);
  if (found == nullptr) {  // shared by several DMA engines, still running
    charge(engine, {Cause::kWaitDma, q}, until);
    return;
  }
  const TransferRecord& t = *found;
  const auto trigger = static_cast<models::QueueIndex>(t.inst->engine);
  charge(engine, {Cause::kWaitEngine, trigger}, std::min(until, t.trigger_end));
  charge(engine, {Cause::kDmaLatency, q}, std::min(until, t.ready));
  charge(engine, {Cause::kDmaEngines, kNoQueue}, std::min(until, t.first_packet));
  const Fs last = std::min(until, t.last_packet);
  const Fs moving = std::max<Fs>(0, last - engine.charged);
  charge(engine, {Cause::kHbm, kNoQueue}, engine.charged + hbm_share(moving, t));
  charge(engine, {Cause::kWaitDma, q}, last);
  charge(engine, {Cause::kSemaphore, kNoQueue}, until);
}

const TransferRecord* Accounting::Queue::transfer(std::uint64_t sequence) const {
  return of_accounting::find(transfers, sequence);
}

const CollectiveRecord* Accounting::Queue::collective(std::uint64_t sequence) const {
  return of_accounting::find(collectives, sequence);
}

// The wait for a collective operation, cut where the last rank that it needs has come.
void Accounting::charge_collective(Engine& engine, const CollectiveRecord& c, Fs until) {
  charge(engine, {Cause::kWaitEngine, static_cast<models::QueueIndex>(c.engine)},
         std::min(until, c.trigger_end));
  charge(engine, {Cause::kCollective, kNoQueue}, std::min(until, c.start));
  if (c.waited_for >= 0) {
    charge(engine, {Cause::kWaitRank, static_cast<models::QueueIndex>(c.waited_for)},
           std::min(until, c.ready));
  }
  charge(engine, {Cause::kCollective, kNoQueue}, until);
}

// The order of models::Wait.
void Accounting::charge_wait(Core& c, Engine& engine, const models::PartEvent& event) {
  const models::Wait& w = event.wait;
  const auto until = [&event](Fs time) { return std::min(time, event.start); };
  if (w.producer != kNoQueue) {
    const auto own = static_cast<models::QueueIndex>(engine_of(event.part->unit));
    if (w.producer >= isa::kEngineCount) {
      charge_transfer(c, engine, w, until(w.producer_end));
    } else if (w.producer == own) {
      charge(engine, {Cause::kOwnPath, kNoQueue}, until(w.producer_end));
    } else {
      charge(engine, {Cause::kWaitEngine, w.producer}, until(w.producer_end));
    }
  }
  charge(engine, {Cause::kSemaphore, kNoQueue}, until(w.awake));
  charge(engine, {Cause::kPort, static_cast<models::QueueIndex>(w.port_holder)},
         until(w.port_free));
  charge(engine, {Cause::kOwnPath, kNoQueue}, until(w.pipe_free));
  charge(engine, {Cause::kIssue, kNoQueue}, event.start);
}

// The path of a run has the same shares, whatever else is kept.
void Accounting::forget_early() {
  using of_accounting::forgettable;
  for (const Core& c : cores_) {
    for (const Engine& e : c.engines) {
      forgotten_ = std::max(forgotten_, forgettable(e.parts, &PartRecord::end));
    }
    for (const Queue& q : c.queues) {
      forgotten_ = std::max(forgotten_, forgettable(q.transfers, &TransferRecord::visible));
    }
  }
}

// Adds a part to those of its engine.
void Accounting::see(Engine& engine, const models::PartEvent& event) {
  if (!engine.parts.empty()) {
    const PartRecord& before = engine.parts.back();
    engine.in_order =
        engine.in_order && before.start <= event.start && before.sequence <= event.sequence;
  }
  const models::Wait& w = event.wait;
  engine.parts.push_back(
      {.inst = event.inst,
       .sequence = event.sequence,
       .start = event.start,
       .end = event.end,
       .held_until = event.kind == models::PartKind::kArray ? event.busy_to : event.end,
       .producer_end = w.producer_end,
       .producer_sequence = w.producer_sequence,
       .producer = w.producer,
       .opcode = event.part->opcode,
       .unit = event.part->unit,
       .port_holder = w.port_free >= event.start ? w.port_holder : isa::Engine::kAny,
       .woken = w.awake >= event.start});
}

void Accounting::on_event(const models::PartEvent& event) {
  Core& c = core(event.core);
  Engine& engine = c.engines.at(static_cast<std::size_t>(engine_of(event.part->unit)));
  if (keeps_ == Keeps::kPath) {
    see(engine, event);
    forgotten_ = std::max(forgotten_, of_accounting::forget(engine.parts, &PartRecord::end));
    return;
  }
  Fs busy_from = event.busy_from, busy_to = event.busy_to;
  if (event.kind == models::PartKind::kPipe) {
    busy_to = std::min(event.end, event.start + costs_->cost(*event.part).stream);
  }
  // Drain of the earlier instructions, up to where this one streams.
  if (engine.charged < engine.cover) {
    charge(engine, {Cause::kFixed, kNoQueue}, std::min(engine.cover, busy_from));
  }
  engine.close();
  see(engine, event);
  charge_wait(c, engine, event);
  charge(engine, {Cause::kFixed, kNoQueue}, busy_from);
  charge(engine, {Cause::kThrottle, kNoQueue}, std::min(busy_to, engine.charged + event.throttled));
  charge(engine, {Cause::kBusy, kNoQueue}, busy_to);
  engine.cover = std::max(engine.cover, event.end);
}

void Accounting::on_event(const models::DmaEvent& event) {
  Queue& queue = core(event.core).queues.at(event.queue);
  const models::DmaConfig& dma = config_->dma;
  const models::DgeConfig& dge = event.mode == isa::DgeMode::kHwdge   ? dma.hardware
                                 : event.mode == isa::DgeMode::kSwdge ? dma.software
                                                                      : dma.fixed;
  TransferRecord t{.inst = event.inst,
                   .sequence = event.sequence,
                   .trigger_start = event.trigger_start,
                   .trigger_end = event.trigger_end,
                   .first_packet = event.first_packet,
                   .last_packet = event.last_packet,
                   .visible = event.visible,
                   .bytes = event.work->bytes,
                   .reads_hbm = event.work->src == isa::Space::kHbm,
                   .writes_hbm = event.work->dst == isa::Space::kHbm};
  if (event.packets == 0) t.first_packet = t.last_packet = t.visible;
  t.ready = std::min(t.first_packet,
                     t.trigger_end + dge.first_packet + (t.reads_hbm ? dma.hbm_read_latency : 0));
  of_accounting::add_in_order(queue.transfers, t);
  if (keeps_ == Keeps::kAll) return;
  forgotten_ =
      std::max(forgotten_, of_accounting::forget(queue.transfers, &TransferRecord::visible));
}

void Accounting::on_event(const models::CollectiveEvent& event) {
  Queue& queue = core(event.core).queues.at(event.queue);
  const models::RankTiming& here = event.part->timing;
  of_accounting::add_in_order<CollectiveRecord>(queue.collectives,
                                                {.inst = event.inst,
                                                 .sequence = event.sequence,
                                                 .engine = event.engine,
                                                 .id = event.part->id,
                                                 .trigger_end = event.trigger_end,
                                                 .start = here.start,
                                                 .ready = here.ready,
                                                 .end = here.end,
                                                 .waited_for = here.waited_for});
}

// If several streams have operations under way, the one that started first decides.
void Accounting::charge_collectives(Queue& queue) const {
  std::vector<const CollectiveRecord*> all;
  for (const CollectiveRecord& c : queue.collectives) all.push_back(&c);
  isa::sort_stably(all,
                   [](const auto* a, const auto* b) { return a->trigger_end < b->trigger_end; });
  Fs at = 0;
  const auto until = [&](Charge charge, Fs time) {
    time = std::min(time, end_);
    if (time <= at) return;
    queue.total[charge] += time - at;
    at = time;
  };
  for (const CollectiveRecord* c : all) {
    until({Cause::kWaitEngine, static_cast<models::QueueIndex>(c->engine)}, c->trigger_end);
    until({Cause::kCollective, kNoQueue}, c->start);
    if (c->waited_for >= 0) {
      until({Cause::kWaitRank, static_cast<models::QueueIndex>(c->waited_for)}, c->ready);
    }
    until({Cause::kCollective, kNoQueue}, c->end);
  }
  until({Cause::kEnd, kNoQueue}, end_);
}

// The transfer under way that has come furthest decides.
void Accounting::charge_queue(Queue& queue) const {
  enum Phase : std::size_t { kMoving, kQueued, kLatency, kPhases };
  struct Change {
    Fs time;
    std::size_t phase;
    int step;
  };
  std::vector<Change> changes;
  Fs moving = 0, hbm = 0, last = 0;
  const auto add = [&changes](Fs from, Fs to, Phase phase) {
    if (from >= to) return;
    changes.push_back({from, phase, 1});
    changes.push_back({to, phase, -1});
  };
  for (const TransferRecord& t : queue.transfers) {
    add(t.trigger_end, t.ready, kLatency);
    add(t.ready, t.first_packet, kQueued);
    add(t.first_packet, t.last_packet, kMoving);
    add(t.last_packet, t.visible, kLatency);
    moving += t.last_packet - t.first_packet;
    hbm += hbm_share(t.last_packet - t.first_packet, t);
    last = std::max(last, t.visible);
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.time < b.time; });
  std::array<int, kPhases> active{};
  std::array<Fs, kPhases> time{};
  Fs at = 0, idle = 0;
  for (const Change& change : changes) {
    std::size_t phase = 0;
    while (phase < kPhases && active.at(phase) == 0) ++phase;
    (phase < kPhases ? time.at(phase) : idle) += change.time - at;
    at = change.time;
    active.at(change.phase) += change.step;
  }
  const auto trigger = static_cast<models::QueueIndex>(queue.transfers.front().inst->engine);
  const Fs lost = moving == 0
                      ? 0
                      : static_cast<Fs>(static_cast<double>(time[kMoving]) *
                                        static_cast<double>(hbm) / static_cast<double>(moving));
  queue.total[{Cause::kBusy, kNoQueue}] = time[kMoving] - lost;
  queue.total[{Cause::kHbm, kNoQueue}] = lost;
  queue.total[{Cause::kDmaEngines, kNoQueue}] = time[kQueued];
  queue.total[{Cause::kFixed, kNoQueue}] = time[kLatency];
  queue.total[{Cause::kWaitEngine, trigger}] = idle;
  queue.total[{Cause::kEnd, kNoQueue}] = end_ - at;
}

void Accounting::on_end(const models::RunEnd& run) {
  const Fs end = run.time;
  end_ = end;
  partial_ = run.partial;
  if (keeps_ == Keeps::kPath) return;
  forget_early();
  for (Core& c : cores_) {
    for (Engine& engine : c.engines) {
      if (engine.charged < engine.cover) {
        charge(engine, {Cause::kFixed, kNoQueue}, engine.cover);
      }
      engine.close();
      if (engine.charged < end) engine.total[{Cause::kEnd, kNoQueue}] += end - engine.charged;
    }
    for (Queue& queue : c.queues) {
      if (!queue.transfers.empty()) charge_queue(queue);
      if (!queue.collectives.empty()) charge_collectives(queue);
    }
  }
}

}  // namespace nkisim
