// Computes when the packets of one DMA engine start and end, by runs of equal packets.
#include "models/dma/dma_lane.hpp"

#include <algorithm>
#include <utility>

#include "models/memory/hbm_if.hpp"

namespace nkisim::models {

void DmaLane::reach(hbm_if& hbm) { hbm_ = hbm.limits() ? &hbm : nullptr; }

void LaneLoad::add(const PacketRun& run) {
  if (!runs.empty()) tail = runs.back().duration - runs.back().interval;
  payload_bytes = bytes;
  payload_work = work;
  last_interval = run.interval;
  runs.push_back(run);
  packets += run.count;
  bytes += run.count * run.bytes;
  largest = std::max(largest, run.bytes);
  work += run.count * run.interval;
  gaps += run.count * run.gap;
}

// Field by field: what has just been written is not read in other sizes.
void DmaLane::Queue::begin(Fs ready, const LaneLoad& load, void* transfer) {
  head.item.queue = index;
  head.item.ready = ready;
  head.item.load = &load;
  head.item.transfer = transfer;
  head.run = 0;
  head.packet = 0;
  head.total = load.packets;
  head.work = load.work;
  head.gaps = load.gaps;
  head.first = kNever;
  head.payload_end = 0;
  head.bytes = load.bytes;
  head.cold = false;
  busy = true;
}

bool DmaLane::push(QueueIndex queue, Fs ready, const LaneLoad& load, void* transfer) {
  auto q = std::find_if(queues_.begin(), queues_.end(),
                        [&](const Queue& x) { return x.index >= queue; });
  if (q == queues_.end() || q->index != queue) {
    q = queues_.insert(q, Queue{.index = queue});
  }
  if (q->busy) {
    q->next.push_back({queue, ready, &load, transfer});
    return false;
  }
  q->begin(ready, load, transfer);
  ++busy_;
  ready_ = std::min(ready_, ready);
  return true;
}

Fs DmaLane::backlog(QueueIndex queue, std::int64_t bytes) const {
  const auto q = std::find_if(queues_.begin(), queues_.end(),
                              [&](const Queue& x) { return x.index == queue; });
  if (q == queues_.end()) return 0;
  if (!q->busy) return 0;
  std::int64_t over = q->head.bytes - bytes;
  for (std::size_t i = 0; i < q->next.size(); ++i) over += q->next[i].load->bytes;
  Fs at = free_;
  for (std::size_t i = 0; i <= q->next.size() && over > 0; ++i) {
    const LaneItem& item = i == 0 ? q->head.item : q->next[i - 1];
    const std::size_t first = i == 0 ? q->head.run : 0;
    at = std::max(at, item.ready);
    for (std::size_t r = first; r < item.load->runs.size(); ++r) {
      const PacketRun& run = item.load->runs[r];
      const std::int64_t left = run.count - (i == 0 && r == first ? q->head.packet : 0);
      const std::int64_t needed = (over + run.bytes - 1) / run.bytes;
      const Fs spacing = run.interval - (busy_ > 1 ? run.gap : 0);
      if (needed <= left) return at + (needed - 1) * spacing;
      over -= left * run.bytes;
      at += left * spacing;
    }
  }
  return 0;
}

Fs DmaLane::next_ready(Fs after) const {
  Fs ready = kNever;
  for (const Queue& q : queues_) {
    if (q.busy && q.head.item.ready > after) {
      ready = std::min(ready, q.head.item.ready);
    }
  }
  return ready;
}

// The queue served last if its slice is not over, else the next one after it whose head is ready.
DmaLane::Queue* DmaLane::pick(Fs at) {
  Queue* lowest = nullptr;
  for (Queue& q : queues_) {
    if (!q.busy || q.head.item.ready > at) continue;
    const Active& a = q.head;
    if (q.index == last_ && slice_ > 0 &&
        slice_ + a.item.load->runs[a.run].bytes <= config_.turn_bytes) {
      return &q;
    }
    if (q.index > last_) {
      lowest = &q;
      break;
    }
    if (lowest == nullptr) lowest = &q;
  }
  serve(lowest->index);
  return lowest;
}

// Packets of the current run in a whole slice of its queue.
std::int64_t DmaLane::slice_of(const Active& a) const {
  return std::max<std::int64_t>(1, config_.turn_bytes / a.item.load->runs[a.run].bytes);
}

// Slices that each other queue certainly has before the queue's first share is done.
std::int64_t DmaLane::slices_of_others(const Queue& queue) const {
  const Active& a = queue.head;
  const std::int64_t most = std::max(config_.turn_bytes, a.item.load->largest);
  const std::int64_t now = queue.index == last_ ? std::max<std::int64_t>(0, most - slice_) : most;
  return a.bytes <= now ? 0 : (a.bytes - now + most - 1) / most;
}

// The index of the only queue with work.
std::size_t DmaLane::sole() const {
  std::size_t q = 0;
  while (!queues_[q].busy) ++q;
  return q;
}

// The part of the collected stall that a packet meets: whole quanta.
Fs DmaLane::whole_quanta(double stalled) const {
  if (stalled < static_cast<double>(config_.hbm_stall_quantum)) return 0;  // as is most often so
  return static_cast<Fs>(stalled / static_cast<double>(config_.hbm_stall_quantum)) *
         config_.hbm_stall_quantum;
}

// Stall that `packets` packets will meet.
Fs DmaLane::stall_ahead(const Active& a, std::int64_t packets) const {
  const LaneLoad& load = *a.item.load;
  if (load.stall <= 0) return 0;
  return whole_quanta(stalled_ +
                      load.stall * static_cast<double>(packets * load.runs[a.run].bytes));
}

Fs DmaLane::stall(const Active& a, std::int64_t packets) {
  if (a.item.load->stall <= 0) return 0;
  const Fs met = stall_ahead(a, packets);
  stalled_ += a.item.load->stall * static_cast<double>(packets * a.item.load->runs[a.run].bytes);
  stalled_ -= static_cast<double>(met);
  return met;
}

// Counts the bytes that packets of the current run move over the HBM stack.
double DmaLane::stack_bytes(const Active& a, std::int64_t packets) {
  const LaneLoad& load = *a.item.load;
  return static_cast<double>(packets * load.runs[a.run].bytes * load.hbm_passes);
}

// Delay by others that use the same HBM stack.
Fs DmaLane::contention(Fs start, Fs span, double bytes) {
  return hbm_ == nullptr || bytes <= 0 ? 0 : hbm_->delay(start, span, bytes);
}

// Accounts `packets` packets of the current run that start at free_.
void DmaLane::take(Active& a, std::int64_t packets) {
  const PacketRun& run = a.item.load->runs[a.run];
  a.packet += packets;
  a.total -= packets;
  a.work -= packets * run.interval;
  a.gaps -= packets * run.gap;
  a.bytes -= packets * run.bytes;
  slice_ += packets * run.bytes;
  if (a.packet == run.count) {
    a.packet = 0;
    ++a.run;
  }
}

// One packet of `queue`, or as many as certainly follow each other until `limit`. With `sole`, no
// other queue has work.
void DmaLane::step(Queue& queue, Fs limit, bool sole, std::vector<LaneDone>& done) {
  Active& a = queue.head;
  const LaneLoad& load = *a.item.load;
  const bool alone = sole || std::none_of(queues_.begin(), queues_.end(), [&](const Queue& q) {
                       return &q != &queue && q.busy && q.head.item.ready <= free_;
                     });
  if (a.first == kNever) a.first = free_;
  Fs start = 0;
  do {
    start = free_;
    const PacketRun& run = load.runs[a.run];
    const bool is_semaphore = a.run + 1 == load.runs.size();
    std::int64_t packets = 1;
    if (sink_ == nullptr && alone) {
      packets = until(a, sole ? limit : std::min(limit, next_ready(start) - 1));
    } else if (sink_ == nullptr && !is_semaphore) {
      packets = rest_of_slice(a, limit - start);
    }
    const Fs spacing = run.interval - (alone ? 0 : run.gap);
    Fs extra = 0;
    if (!is_semaphore) extra = stall(a, packets);
    if (std::exchange(a.cold, false)) extra += load.cold;
    if (!is_semaphore)
      extra += contention(start, packets * spacing + extra, stack_bytes(a, packets));
    free_ = start + packets * spacing + extra;
    if (!is_semaphore) {
      a.payload_end = free_ - run.interval + run.duration;
      if (sink_ != nullptr) {
        sink_->push_back({a.item.transfer, queue.index, start, a.payload_end - start, run.bytes});
      }
    }
    take(a, packets);
  } while (sole && a.total > 0 && free_ <= limit);
  if (a.total > 0) return;
  finish(queue, {a.item.transfer, queue.index, a.first, a.payload_end, start}, done);
}

void DmaLane::finish(Queue& queue, const LaneDone& share, std::vector<LaneDone>& done) {
  done.push_back(share);
  next_share(queue);
}

void DmaLane::next_share(Queue& queue) {
  if (queue.next.empty()) {
    queue.busy = false;
    --busy_;
  } else {
    const LaneItem& next = queue.next.front();
    queue.begin(next.ready, *next.load, next.transfer);
    queue.next.pop_front();
  }
  ready_ = kNever;
  for (const Queue& q : queues_) {
    if (q.busy) ready_ = std::min(ready_, q.head.item.ready);
  }
}

// A share that nothing can delay any more, in one go. False if packets must be looked at.
bool DmaLane::whole(Queue& queue, Fs limit, std::vector<LaneDone>& done) {
  Active& a = queue.head;
  const LaneLoad& load = *a.item.load;
  const bool contended = hbm_ != nullptr && load.hbm_passes > 0;
  if (sink_ != nullptr || contended || a.first != kNever) return false;
  if (a.cold && load.runs.size() != 2) return false;  // stalls are of runs
  Fs end = free_ + load.payload_work + (a.cold ? load.cold : 0);
  double stalled = stalled_;
  if (load.stall > 0) {
    stalled += load.stall * static_cast<double>(load.payload_bytes);
    const Fs met = whole_quanta(stalled);
    stalled -= static_cast<double>(met);
    end += met;
  }
  if (end > limit) return false;
  if (load.runs.size() > 1) a.payload_end = end + load.tail;
  slice_ += a.bytes;
  finish(queue, {a.item.transfer, queue.index, free_, a.payload_end, end}, done);
  stalled_ = stalled;
  free_ = end + load.last_interval;
  return true;
}

// Packets of the current run that start at free_ and later, the last of them not after `limit`; at
// least one.
std::int64_t DmaLane::until(const Active& a, Fs limit) const {
  const LaneLoad& load = *a.item.load;
  const PacketRun& run = load.runs[a.run];
  const std::int64_t left = run.count - a.packet;
  Fs extra = a.cold ? load.cold : 0;
  if (a.run + 1 < load.runs.size() && left > 1) extra += stall_ahead(a, left);
  if (free_ + (left - 1) * run.interval + extra <= limit) return left;
  if (a.cold) return 1;
  const Fs span = limit - free_ - extra;
  return std::clamp<std::int64_t>(span / std::max<Fs>(run.interval, 1) + 1, 1, left);
}

// Packets that go on with the present slice, the last of which starts within `span`.
std::int64_t DmaLane::rest_of_slice(const Active& a, Fs span) const {
  const PacketRun& run = a.item.load->runs[a.run];
  if (a.cold || run.bytes >= config_.turn_bytes) return 1;
  std::int64_t packets = std::min(run.count - a.packet, (config_.turn_bytes - slice_) / run.bytes);
  const Fs stalls = packets > 1 ? stall_ahead(a, packets) : 0;
  packets = std::min(packets, (span - stalls) / std::max<Fs>(run.interval - run.gap, 1) + 1);
  return std::max<std::int64_t>(1, packets);
}

// Whole rounds over all ready queues, leaving at least one packet of every current run. False if
// fewer than two rounds fit, or a slice has begun.
bool DmaLane::rounds(Fs limit) {
  if (sink_ != nullptr) return false;
  std::int64_t fit = std::numeric_limits<std::int64_t>::max();
  Fs length = 0, stalls = 0;
  int ready = 0;
  for (const Queue& q : queues_) {
    if (!q.busy || q.head.item.ready > free_) continue;
    const Active& a = q.head;
    if (a.first == kNever || a.cold) return false;
    const PacketRun& run = a.item.load->runs[a.run];
    if (q.index == last_ && slice_ + run.bytes <= config_.turn_bytes) return false;
    fit = std::min(fit, (run.count - a.packet - 1) / slice_of(a));
    length += slice_of(a) * (run.interval - run.gap);
    ++ready;
  }
  if (ready < 2) return false;
  const Fs window = std::min(limit, next_ready(free_)) - free_;
  fit = std::min(fit, window / std::max<Fs>(length, 1));
  if (fit < 2) return false;
  for (const Queue& q : queues_) {
    if (!q.busy || q.head.item.ready > free_) continue;
    stalls += stall_ahead(q.head, fit * slice_of(q.head));
  }
  fit = std::min(fit, (window - stalls) / std::max<Fs>(length, 1));
  if (fit < 2) return false;
  const Fs begin = free_;
  Fs extra = 0;
  double bytes = 0;  // the engine has one share of the stack, whatever number of queues it serves
  QueueIndex highest = 0,
             before = kNoQueue;  // of those served; up to the one served last until now
  for (Queue& q : queues_) {
    if (!q.busy || q.head.item.ready > begin) continue;
    highest = q.index;
    if (q.index <= last_) before = q.index;
    Active& a = q.head;
    const std::int64_t packets = fit * slice_of(a);
    extra += stall(a, packets);
    bytes += stack_bytes(a, packets);
    take(a, packets);
  }
  extra += contention(begin, fit * length, bytes);
  free_ = begin + fit * length + extra;
  last_ = before == kNoQueue ? highest : before;
  slice_ = config_.turn_bytes;
  return true;
}

// Advances the only queue with work. False if nothing starts by `now`.
bool DmaLane::advance_sole(Queue& queue, Fs now, std::vector<LaneDone>& done) {
  Active& a = queue.head;
  const Fs at = std::max(free_, a.item.ready);
  if (at > now) return false;
  if (a.first == kNever && at - free_ > config_.cold_idle && a.item.load->cold > 0) a.cold = true;
  free_ = at;
  serve(queue.index);
  if (!whole(queue, now, done)) step(queue, now, true, done);
  return true;
}

// The same of several queues.
bool DmaLane::advance_shared(Fs now, std::vector<LaneDone>& done) {
  const Fs at = earliest();
  if (at > now) return false;
  const bool was_idle = at - free_ > config_.cold_idle;
  free_ = at;
  if (rounds(now)) return true;
  Queue& queue = *pick(at);
  Active& a = queue.head;
  if (a.first == kNever && was_idle && a.item.load->cold > 0) a.cold = true;
  step(queue, now, false, done);
  return true;
}

void DmaLane::advance(Fs now, std::vector<LaneDone>& done) {
  if (ask_) {
    advance_asking(now, done);
    return;
  }
  while (busy_ > 0) {
    const bool moved =
        busy_ == 1 ? advance_sole(queues_[sole()], now, done) : advance_shared(now, done);
    if (!moved) return;
  }
}

// Delay that the idle engine certainly adds to the share it does next.
Fs DmaLane::cold_ahead(const Active& a, Fs at) const {
  if (a.cold) return a.item.load->cold;
  return a.first == kNever && at - free_ > config_.cold_idle ? a.item.load->cold : 0;
}

// HBM stalls of the rest of a share, less one for rounding.
Fs DmaLane::certain_stall(const Active& a) const {
  if (a.item.load->stall <= 0) return 0;
  const double all = stalled_ + a.item.load->stall * static_cast<double>(a.bytes - kSemaphoreBytes);
  return std::max<Fs>(0, whole_quanta(all) - config_.hbm_stall_quantum);
}

Fs DmaLane::finish_alone(const Active& a) const {
  const Fs at = std::max(free_, a.item.ready);
  return at + a.work - a.item.load->last_interval + certain_stall(a) + cold_ahead(a, at);
}

LaneAlone DmaLane::alone_after(const LaneAlone& before, Fs ready, const LaneLoad& load) const {
  const Fs at = std::max(before.free, ready);
  const Fs cold = at - before.free > config_.cold_idle ? load.cold : 0;
  LaneAlone share{.planned = at + load.work - load.last_interval + cold,
                  .start = at,
                  .end = at + load.payload_work + cold,
                  .free = 0,
                  .stalled = before.stalled};
  if (load.stall > 0) {
    share.stalled += load.stall * static_cast<double>(load.payload_bytes);
    const Fs met = whole_quanta(share.stalled);
    share.planned += std::max<Fs>(0, met - config_.hbm_stall_quantum);
    share.end += met;
    share.stalled -= static_cast<double>(met);
  }
  share.free = share.end + load.last_interval;
  return share;
}

Fs DmaLane::next() const {
  if (busy_ == 0) return kNever;
  if (ask_) return asked_ < outstanding_ ? earliest() : kNever;
  if (busy_ == 1) return finish_alone(queues_[sole()].head);
  const Fs at = earliest();
  Fs best = kNever;
  for (const Queue& q : queues_) {
    if (!q.busy || q.head.item.ready > at) continue;
    const Active& a = q.head;
    Fs finish = at + a.work - a.gaps - a.item.load->last_interval;
    finish += certain_stall(a);
    const std::int64_t rounds = slices_of_others(q);
    for (const Queue& other : queues_) {
      if (&other == &q || !other.busy || other.head.item.ready > at) continue;
      const Active& o = other.head;
      const PacketRun& run = o.item.load->runs[o.run];
      finish += std::min(o.work - o.gaps, rounds * std::min(run.interval - run.gap,
                                                            o.item.load->runs.back().interval));
    }
    best = std::min(best, finish);
  }
  return best;
}

}  // namespace nkisim::models
