#include "models/dma/dma.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace nkisim::models {
namespace {

constexpr QueueIndex kCollectiveQueue = kNoQueue - 1;  // its packets take turns with the others

LaneDone done_alone(Transfer& transfer, const LaneLoad& load, const LaneAlone& share) {
  return {.transfer = &transfer,
          .queue = transfer.op->queue,
          .start = share.start,
          .payload_end = load.runs.size() > 1 ? share.end + load.tail : 0,
          .semaphore_start = share.end};
}

constexpr Fs kAskAgain = 1'000'000;  // what others delay is looked at again after this much

}  // namespace

Dma::Dma(sc_core::sc_module_name name, const DmaConfig& config, SimSession& session, Hbm& hbm,
         Client client)
    : sc_module(name),
      config_(config),
      session_(session),
      hbm_(hbm),
      client_(std::move(client)),
      planner_(config),
      lanes_(static_cast<std::size_t>(config.engines), DmaLane(config, &hbm)),
      planned_(static_cast<std::size_t>(config.engines), kNever) {
  alone_.first.shares.resize(lanes_.size());
  alone_.second.shares.resize(lanes_.size());
  alone_.left.resize(lanes_.size());
  alone_.order.resize(lanes_.size());
  std::iota(alone_.order.begin(), alone_.order.end(), 0U);
  SC_HAS_PROCESS(Dma);
  SC_METHOD(step);
  sensitive << wake_;
  if (hbm_.limits()) hbm_.join(*this);
  if (!client_.on_packet) return;
  for (DmaLane& lane : lanes_) lane.record(packets_);
}

Transfer* Dma::allocate() {
  if (free_.empty()) return &store_.emplace_back();
  Transfer* t = free_.back();
  free_.pop_back();
  *t = {};
  return t;
}

void Dma::submit(Operation& op, const DgeConfig& dge, Fs first_packet) {
  const isa::DmaWork& work = op.expansion().dma;
  Transfer* t = allocate();
  t->op = &op;
  t->plan = planner_.plan(work, op.step.inst->dma, dge);
  t->packets = t->plan->packets;
  t->lanes_left = static_cast<int>(t->plan->lanes.size());
  const isa::DmaPlan* plan = op.step.inst->dma;
  t->each_update = plan != nullptr && plan->semaphore >= 0;
  t->updates_left = t->each_update ? t->lanes_left : 1;
  if (op.queue >= next_first_.size()) next_first_.resize(op.queue + 1U, 0);
  first_packet = std::max(first_packet, next_first_[op.queue]);
  next_first_[op.queue] = first_packet + dge.queue_interval;
  if (work.src == isa::Space::kHbm) first_packet += config_.hbm_read_latency;
  ++outstanding_.at(static_cast<std::size_t>(op.dge));
  if (!add_alone(*t, first_packet)) {
    for (std::size_t e = 0; e < lanes_.size(); ++e) push(e, first_packet, *t);
  }
  wake_.notify();
}

void Dma::push(std::size_t e, Fs ready, Transfer& transfer) {
  const LanePlan& lane = transfer.plan->lanes[e];
  if (lanes_[e].push(transfer.op->queue, ready + lane.offset, lane.load, &transfer)) {
    look_sooner(e);
  }
}

// False if engines have other work: then they must know of each other.
bool Dma::add_alone(Transfer& transfer, Fs ready) {
  const std::vector<LanePlan>& plans = transfer.plan->lanes;
  const bool first = alone_.pending.empty();
  bool fits =
      first || (!alone_.split && alone_.pending.front().transfer->op->queue == transfer.op->queue);
  for (std::size_t e = 0; e < plans.size() && fits; ++e) {
    fits = lanes_[e].can_be_alone(plans[e].load);
  }
  if (!fits) {
    join_lanes();
    return false;
  }
  alone_.pending.push_back({&transfer, ready});
  if (!first) return true;
  find_shares(alone_.pending.front(), nullptr, alone_.first);
  soonest_ = std::min(soonest_, alone_.first.planned);
  return true;
}

// `before`: what the engines do first.
void Dma::find_shares(const Alone::Pending& pending, const Together* before,
                      Together& found) const {
  const std::vector<LanePlan>& plans = pending.transfer->plan->lanes;
  found.start = found.planned = kNever;
  found.end = 0;
  for (std::size_t e = 0; e < plans.size(); ++e) {
    const LanePlan& plan = plans[e];
    const Fs ready = pending.ready + plan.offset;
    const LaneAlone share = before == nullptr
                                ? lanes_[e].alone(ready, plan.load)
                                : lanes_[e].alone_after(before->shares[e], ready, plan.load);
    found.shares[e] = share;
    found.start = std::min(found.start, share.start);
    found.planned = std::min(found.planned, share.planned);
    found.end = std::max(found.end, share.end);
  }
}

// From now on the engines look at packets.
void Dma::join_lanes() {
  for (; !alone_.pending.empty(); alone_.pending.pop_front()) {
    const auto [transfer, ready] = alone_.pending.front();
    for (std::size_t e = 0; e < lanes_.size(); ++e) {
      if (!alone_.split || alone_.left[e]) push(e, ready, *transfer);
    }
    alone_.split = false;
  }
}

// Engines do their shares of the only transfer pending at different times. All of them are looked
// at, or those for which it was planned. False if one was done that had to look at packets.
bool Dma::split_alone(Fs now, bool all) {
  Transfer& transfer = *alone_.pending.front().transfer;
  alone_.split = true;
  for (std::size_t e = 0; e < lanes_.size(); ++e) {
    const LaneAlone& share = alone_.first.shares[e];
    alone_.left[e] = true;
    planned_[e] = share.planned;
    const bool looks = all || share.planned <= now;
    if (looks && share.start <= now && share.end > now) look_at(e, now);
  }
  if (!finished_.empty()) {
    if (all) std::fill(planned_.begin(), planned_.end(), now);
    return false;
  }
  sort_alone();
  Fs& last = last_update(transfer.op->queue);
  for (const std::uint32_t e : alone_.order) {
    const LaneAlone& share = alone_.first.shares[e];
    if (!alone_.left[e] || share.end > now || !(all || share.planned <= now)) continue;
    alone_.left[e] = false;
    planned_[e] = kNever;
    finish_share(transfer, e, last);
  }
  soonest_ = *std::min_element(planned_.begin(), planned_.end());
  end_split();
  return true;
}

// If none is left.
void Dma::end_split() {
  if (!alone_.split) return;
  if (std::find(alone_.left.begin(), alone_.left.end(), true) != alone_.left.end()) return;
  alone_.split = false;
  alone_.pending.pop_front();
}

// Whether an engine's look at what is left for it is done with that.
bool Dma::take_left(std::size_t e, Fs now) {
  const LaneAlone& share = alone_.first.shares[e];
  const auto [transfer, ready] = alone_.pending.front();
  if (share.start > now) {
    planned_[e] = share.planned;
    return true;
  }
  alone_.left[e] = false;
  const LaneLoad& load = transfer->plan->lanes[e].load;
  if (share.end > now) {
    lanes_[e].push(transfer->op->queue, ready + transfer->plan->lanes[e].offset, load, transfer);
    return false;
  }
  lanes_[e].did_alone(transfer->op->queue, load, share);
  finished_.push_back({share.end, static_cast<int>(e), static_cast<std::uint32_t>(done_.size())});
  done_.push_back(done_alone(*transfer, load, share));
  planned_[e] = kNever;
  return true;
}

// False if engines have to look: one has begun with what it does not finish by `now`, or is done
// with a transfer before another is with the one before it.
bool Dma::take_alone(Fs now) {
  bool ended = false;
  while (!alone_.pending.empty() && alone_.first.end <= now) {
    const bool more = alone_.pending.size() > 1;
    if (more) {
      find_shares(alone_.pending[1], &alone_.first, alone_.second);
      if (alone_.second.start <= alone_.first.end) break;
    }
    ended = true;
    finish_alone(*alone_.pending.front().transfer);
    alone_.pending.pop_front();
    if (!more) {
      soonest_ = kNever;
      return true;
    }
    std::swap(alone_.first, alone_.second);
    soonest_ = alone_.first.planned;
  }
  if (ended && alone_.first.start > now) return true;
  if (alone_.pending.size() == 1) return split_alone(now, ended);
  join_lanes();
  if (ended) std::fill(planned_.begin(), planned_.end(), now);
  return false;
}

// By the starts of semaphore writes; most often that of the transfer before.
void Dma::sort_alone() {
  const std::vector<LaneAlone>& shares = alone_.first.shares;
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return shares[a].end != shares[b].end ? shares[a].end < shares[b].end : a < b;
  };
  if (std::is_sorted(alone_.order.begin(), alone_.order.end(), before)) return;
  std::sort(alone_.order.begin(), alone_.order.end(), before);
}

void Dma::finish_alone(Transfer& transfer) {
  sort_alone();
  Fs& last = last_update(transfer.op->queue);
  for (const std::uint32_t e : alone_.order) finish_share(transfer, e, last);
}

// An engine's of the first transfer pending. `last`: when its queue's last semaphore write arrives.
void Dma::finish_share(Transfer& t, std::size_t e, Fs& last) {
  const LaneAlone& share = alone_.first.shares[e];
  const LanePlan& plan = t.plan->lanes[e];
  lanes_[e].did_alone(t.op->queue, plan.load, share);
  if (plan.packets > 0) {
    t.first_packet = std::min(t.first_packet, share.start);
    t.last_packet = std::max(t.last_packet, share.end + plan.load.tail);
    if (client_.on_lane) client_.on_lane(t, plan, done_alone(t, plan.load, share));
  }
  t.visible = last = next_update(last, share.end);
  const bool whole = --t.lanes_left == 0;
  if (whole) --outstanding_.at(static_cast<std::size_t>(t.op->dge));
  if (whole || t.each_update) updates_.push({last, order_++, &t, static_cast<int>(e)});
}

Fs& Dma::last_update(QueueIndex queue) {
  if (queue >= last_update_.size()) last_update_.resize(queue + 1U, 0);
  return last_update_[queue];
}

// When a semaphore write that starts at `start` arrives, after the one before of its queue.
Fs Dma::next_update(Fs before, Fs start) const {
  return std::max(start + config_.semaphore_latency, before + config_.semaphore_serial);
}

void Dma::step() {
  if (session_.stopped()) return;
  try {
    run_events(SimSession::now());
    schedule();
  } catch (...) {
    session_.fail(std::current_exception());
  }
}

// An engine's finish becomes visible only after the semaphore latency, so engines may be looked at
// up to that much late: one activation then serves many of them.
void Dma::schedule() {
  Fs next = updates_.empty() ? kNever : updates_.top().time;
  const Fs now = SimSession::now();
  if (soonest_ != kNever) {
    const Fs slack = std::max<Fs>(0, config_.semaphore_latency - 1);
    next = std::min(next, std::max(soonest_ + slack, now));
  }
  if (next != kNever) wake_.notify(SimSession::time(next - now));
}

void Dma::catch_up(Fs now) {
  if (hbm_.limits()) {
    hbm_.settle(now);
  } else {
    take_until(now, false);
  }
}

// Finishes everything up to `now` in the order of the semaphore writes.
void Dma::take_until(Fs now, bool every) {
  if (soonest_ > now && !every) return;
  finished_.clear();
  done_.clear();
  if (!alone_.pending.empty() && !alone_.split && take_alone(now)) return;
  soonest_ = kNever;
  for (std::size_t e = 0; e < lanes_.size(); ++e) {
    if (planned_[e] <= now || (every && lanes_[e].earliest() <= now)) look_at(e, now);
    soonest_ = std::min(soonest_, planned_[e]);
  }
  end_split();
  if (finished_.empty()) return;
  std::sort(finished_.begin(), finished_.end());
  for (const Finished& f : finished_) finish_lane(f.engine, done_[f.at]);
}

Fs Dma::next_packet() const {
  Fs next = kNever;
  for (const DmaLane& lane : lanes_) next = std::min(next, lane.earliest());
  return next;
}

int Dma::busy() const {
  return static_cast<int>(std::count_if(
      lanes_.begin(), lanes_.end(), [](const DmaLane& lane) { return lane.earliest() != kNever; }));
}

// Nobody waits for them here: the operation's own time is models/collective's.
void Dma::occupy(double bytes) {
  const auto share =
      static_cast<std::int64_t>(std::ceil(bytes / static_cast<double>(lanes_.size())));
  if (share <= 0) return;
  const auto [load, is_new] = collective_loads_.try_emplace(share);
  if (is_new) {
    const Fs time = from_ns(static_cast<double>(share) / config_.bytes_per_ns);
    load->second.add({1, share, time + config_.packet_gap, time});
  }
  const Fs now = SimSession::now();
  catch_up(now);
  join_lanes();
  for (std::size_t e = 0; e < lanes_.size(); ++e) {
    if (lanes_[e].push(kCollectiveQueue, now, load->second, nullptr)) look_sooner(e);
  }
  wake_.notify();
}

int Dma::outstanding(isa::DgeMode mode) {
  catch_up(SimSession::now());
  wake_.notify();
  return outstanding_.at(static_cast<std::size_t>(mode));
}

Fs Dma::room(QueueIndex queue, std::int64_t bytes) {
  const Fs now = SimSession::now();
  join_lanes();
  for (Fs& look : planned_) look = std::min(look, now);
  soonest_ = std::min(soonest_, now);
  catch_up(now);
  wake_.notify();
  Fs at = now;
  for (const DmaLane& lane : lanes_) {
    const Fs room = lane.room(queue, bytes);
    if (room > 0) at = std::max(at, std::max(room, now + kAskAgain));
  }
  return at;
}

void Dma::run_events(Fs now) {
  catch_up(now);
  while (!updates_.empty() && updates_.top().time <= now) {
    const Event e = updates_.top();
    updates_.pop();
    update(*e.transfer, e.engine, now);
  }
}

void Dma::look_at(std::size_t e, Fs now) {
  if (alone_.split && alone_.left[e] && take_left(e, now)) return;
  const auto engine = static_cast<int>(e);
  std::size_t at = done_.size();
  lanes_[e].advance(now, done_);
  for (const PacketTime& p : packets_) {
    if (p.transfer == nullptr) continue;  // of a collective operation
    client_.on_packet(*static_cast<Transfer*>(p.transfer), engine, p);
  }
  packets_.clear();
  for (; at < done_.size(); ++at) {
    finished_.push_back({done_[at].semaphore_start, engine, static_cast<std::uint32_t>(at)});
  }
  planned_[e] = lanes_[e].next();
}

// An engine may have to be looked at sooner than was planned.
void Dma::look_sooner(std::size_t e) {
  planned_[e] = std::min(planned_[e], lanes_[e].next());
  soonest_ = std::min(soonest_, planned_[e]);
}

void Dma::finish_lane(int engine, const LaneDone& done) {
  if (done.transfer == nullptr) return;  // of a collective operation
  auto& t = *static_cast<Transfer*>(done.transfer);
  const LanePlan& plan = t.plan->lanes[static_cast<std::size_t>(engine)];
  if (plan.packets > 0) {
    t.first_packet = std::min(t.first_packet, done.start);
    t.last_packet = std::max(t.last_packet, done.payload_end);
    if (client_.on_lane) client_.on_lane(t, plan, done);
  }
  if (--t.lanes_left == 0) --outstanding_.at(static_cast<std::size_t>(t.op->dge));
  Fs& last = last_update(done.queue);
  last = next_update(last, done.semaphore_start);
  t.visible = std::max(t.visible, last);
  if (t.each_update) {
    updates_.push({last, order_++, &t, engine});
  } else if (t.lanes_left == 0) {
    updates_.push({t.visible, order_++, &t, engine});
  }
}

void Dma::update(Transfer& transfer, int engine, Fs now) {
  transfer.visible = now;
  client_.on_update(transfer, engine);
  if (--transfer.updates_left > 0) return;
  client_.on_done(transfer);
  free_.push_back(&transfer);
}

}  // namespace nkisim::models
