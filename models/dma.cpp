#include "models/dma.hpp"

#include <algorithm>

namespace nkisim::models {

Dma::Dma(sc_core::sc_module_name name, const DmaConfig& config, SimSession& session, Client client)
    : sc_module(name),
      config_(config),
      session_(session),
      client_(std::move(client)),
      lanes_(static_cast<std::size_t>(config.engines), DmaLane(config)),
      planned_(static_cast<std::size_t>(config.engines), kNever) {
  SC_HAS_PROCESS(Dma);
  SC_METHOD(step);
}

Transfer* Dma::allocate() {
  if (free_.empty()) return &store_.emplace_back();
  Transfer* t = free_.back();
  free_.pop_back();
  *t = {};
  return t;
}

void Dma::submit(Operation& op, const DgeConfig& dge, Fs first_packet) {
  const isa::DmaWork& work = op.expansion.dma;
  Transfer* t = allocate();
  t->op = &op;
  t->lanes = plan_dma(work, op.step.inst->dma, dge, config_);
  t->lanes_left = t->updates_left = static_cast<int>(t->lanes.size());
  if (work.src == isa::Space::kHbm) first_packet += config_.hbm_read_latency;
  ++outstanding_.at(static_cast<std::size_t>(op.dge));
  for (LanePlan& lane : t->lanes) {
    t->packets += lane.packets;
    LaneItem item = std::move(lane.item);
    item.queue = op.queue;
    item.ready = first_packet + lane.offset;
    item.transfer = t;
    const auto e = static_cast<std::size_t>(lane.engine);
    lanes_[e].push(std::move(item));
    const Fs next = lanes_[e].next();
    if (next < planned_[e]) push(planned_[e] = next, nullptr, lane.engine);
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

void Dma::schedule() {
  if (events_.empty()) {
    next_trigger(wake_);
  } else {
    next_trigger(SimSession::time(events_.top().time - SimSession::now()), wake_);
  }
}

void Dma::run_events(Fs now) {
  while (!events_.empty() && events_.top().time <= now) {
    const Event e = events_.top();
    events_.pop();
    if (e.transfer != nullptr) {
      update(*e.transfer, e.engine, now);
    } else if (planned_[static_cast<std::size_t>(e.engine)] == e.time) {
      look_at(e.engine, now);
    }
  }
}

void Dma::look_at(int engine, Fs now) {
  const auto e = static_cast<std::size_t>(engine);
  done_.clear();
  lanes_[e].advance(now, done_);
  for (const LaneDone& d : done_) finish_lane(engine, d);
  planned_[e] = lanes_[e].next();
  if (planned_[e] != kNever) push(planned_[e], nullptr, engine);
}

void Dma::finish_lane(int engine, const LaneDone& done) {
  auto& t = *static_cast<Transfer*>(done.transfer);
  const LanePlan& plan = t.lanes[static_cast<std::size_t>(engine)];
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
  push(last, &t, engine);
}

void Dma::update(Transfer& transfer, int engine, Fs now) {
  transfer.visible = now;
  client_.on_update(transfer, engine);
  if (--transfer.updates_left > 0) return;
  client_.on_done(transfer);
  free_.push_back(&transfer);
}

}  // namespace nkisim::models
