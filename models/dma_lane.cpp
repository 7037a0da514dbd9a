#include "models/dma_lane.hpp"

#include <algorithm>

namespace nkisim::models {

void DmaLane::push(LaneItem item) {
  Active a;
  for (const PacketRun& r : item.runs) {
    a.total += r.count;
    a.work += r.count * r.interval;
    a.bytes += r.count * r.bytes;
  }
  a.item = std::move(item);
  auto q = std::find_if(queues_.begin(), queues_.end(),
                        [&](const Queue& x) { return x.index >= a.item.queue; });
  if (q == queues_.end() || q->index != a.item.queue) {
    q = queues_.insert(q, Queue{a.item.queue, {}});
  }
  q->items.push_back(std::move(a));
}

Fs DmaLane::earliest() const {
  Fs ready = kNever;
  for (const Queue& q : queues_) {
    if (!q.items.empty()) ready = std::min(ready, q.items.front().item.ready);
  }
  return ready == kNever ? kNever : std::max(ready, free_);
}

Fs DmaLane::next_ready(Fs after) const {
  Fs ready = kNever;
  for (const Queue& q : queues_) {
    if (!q.items.empty() && q.items.front().item.ready > after) {
      ready = std::min(ready, q.items.front().item.ready);
    }
  }
  return ready;
}

// Next queue after the one served last whose head is ready.
DmaLane::Queue* DmaLane::pick(Fs at) {
  Queue* lowest = nullptr;
  for (Queue& q : queues_) {
    if (q.items.empty() || q.items.front().item.ready > at) continue;
    if (q.index > last_) {
      lowest = &q;
      break;
    }
    if (lowest == nullptr) lowest = &q;
  }
  last_ = lowest->index;
  return lowest;
}

Fs DmaLane::stall(const Active& a, std::int64_t packets) {
  if (a.item.stall <= 0) return 0;
  const auto bytes = static_cast<double>(packets * a.item.runs[a.run].bytes);
  stalled_ += a.item.stall * bytes;
  const auto quanta = static_cast<Fs>(stalled_ / static_cast<double>(config_.hbm_stall_quantum));
  stalled_ -= static_cast<double>(quanta * config_.hbm_stall_quantum);
  return quanta * config_.hbm_stall_quantum;
}

// Accounts `packets` packets of the current run that start at free_.
void DmaLane::take(Active& a, std::int64_t packets) {
  const PacketRun& run = a.item.runs[a.run];
  a.packet += packets;
  a.total -= packets;
  a.work -= packets * run.interval;
  a.bytes -= packets * run.bytes;
  if (a.packet == run.count) {
    a.packet = 0;
    ++a.run;
  }
}

// One packet of `queue`, or as many as certainly follow each other before `limit`.
void DmaLane::step(Queue& queue, Fs limit, std::vector<LaneDone>& done) {
  Active& a = queue.items.front();
  const Fs start = free_;
  const PacketRun run = a.item.runs[a.run];
  const bool is_semaphore = a.run + 1 == a.item.runs.size();
  if (a.first == kNever) a.first = start;
  std::int64_t packets = 1;
  const bool alone = std::none_of(queues_.begin(), queues_.end(), [&](const Queue& q) {
    return &q != &queue && !q.items.empty() && q.items.front().item.ready <= start;
  });
  if (alone && a.packets_to_cold == 0 && sink_ == nullptr) {
    // Starts up to `limit`, but before another queue's head is ready.
    const Fs until = std::min(limit, next_ready(start) - 1);
    packets = std::clamp<std::int64_t>((until - start) / std::max<Fs>(run.interval, 1) + 1, 1,
                                       run.count - a.packet);
  }
  Fs extra = is_semaphore ? 0 : stall(a, packets);
  if (a.packets_to_cold > 0 && --a.packets_to_cold == 0) extra += a.item.cold;
  free_ = start + packets * run.interval + extra;
  if (!is_semaphore) {
    a.payload_end = free_ - run.interval + run.duration;
    if (sink_ != nullptr) {
      sink_->push_back({a.item.transfer, queue.index, start, a.payload_end - start, run.bytes});
    }
  }
  take(a, packets);
  if (a.total > 0) return;
  done.push_back({a.item.transfer, queue.index, a.first, a.payload_end, start});
  queue.items.pop_front();
}

// Whole rounds over all ready queues, leaving at least one packet of every current run. False if
// fewer than two rounds fit.
bool DmaLane::rounds(Fs limit) {
  if (sink_ != nullptr) return false;
  std::int64_t fit = std::numeric_limits<std::int64_t>::max();
  Fs length = 0;
  int ready = 0;
  for (const Queue& q : queues_) {
    if (q.items.empty() || q.items.front().item.ready > free_) continue;
    const Active& a = q.items.front();
    if (a.first == kNever || a.packets_to_cold > 0) return false;
    fit = std::min(fit, a.item.runs[a.run].count - a.packet - 1);
    length += a.item.runs[a.run].interval;
    ++ready;
  }
  if (ready < 2) return false;
  fit = std::min(fit, (std::min(limit, next_ready(free_)) - free_) / std::max<Fs>(length, 1));
  if (fit < 2) return false;
  const Fs begin = free_;
  Fs extra = 0;
  for (Queue& q : queues_) {
    if (q.items.empty() || q.items.front().item.ready > begin) continue;
    extra += stall(q.items.front(), fit);
    take(q.items.front(), fit);
  }
  free_ = begin + fit * length + extra;
  return true;
}

void DmaLane::advance(Fs now, std::vector<LaneDone>& done) {
  for (;;) {
    const Fs at = earliest();
    if (at > now) return;
    const bool was_idle = at - free_ > config_.cold_idle;
    free_ = at;
    if (rounds(now)) continue;
    Queue* queue = pick(at);
    Active& a = queue->items.front();
    if (a.first == kNever && was_idle && a.item.cold > 0) {
      a.packets_to_cold = a.total > 2 ? 2 : 1;  // the second payload packet pays, if there is one
    }
    step(*queue, now, done);
  }
}

Fs DmaLane::next() const {
  const Fs at = earliest();
  if (at == kNever) return kNever;
  Fs best = kNever;
  for (const Queue& q : queues_) {
    if (q.items.empty() || q.items.front().item.ready > at) continue;
    const Active& a = q.items.front();
    const double stall = stalled_ + a.item.stall * static_cast<double>(a.bytes - kSemaphoreBytes);
    const auto quanta = static_cast<Fs>(stall / static_cast<double>(config_.hbm_stall_quantum));
    Fs finish = at + a.work - a.item.runs.back().interval;
    if (quanta > 0) finish += (quanta - 1) * config_.hbm_stall_quantum;
    for (const Queue& other : queues_) {
      if (&other == &q || other.items.empty() || other.items.front().item.ready > at) continue;
      const Active& o = other.items.front();
      finish += std::min(o.work, (a.total - 1) * std::min(o.item.runs[o.run].interval,
                                                          o.item.runs.back().interval));
    }
    best = std::min(best, finish);
  }
  return best;
}

}  // namespace nkisim::models
