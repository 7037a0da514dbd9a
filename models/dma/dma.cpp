#include "models/dma/dma.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

constexpr QueueIndex kCollectiveQueue = kNoQueue - 1;  // its packets take turns with the others

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
  for (const LanePlan& lane : t->plan->lanes) {
    const auto e = static_cast<std::size_t>(lane.engine);
    if (lanes_[e].push(op.queue, first_packet + lane.offset, lane.load, t)) look_sooner(e);
  }
  wake_.notify();
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
  soonest_ = kNever;
  for (std::size_t e = 0; e < lanes_.size(); ++e) {
    if (planned_[e] <= now || (every && lanes_[e].earliest() <= now)) look_at(e, now);
    soonest_ = std::min(soonest_, planned_[e]);
  }
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
  if (done.queue >= last_update_.size()) last_update_.resize(done.queue + 1U, 0);
  Fs& last = last_update_[done.queue];
  last =
      std::max(done.semaphore_start + config_.semaphore_latency, last + config_.semaphore_serial);
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
