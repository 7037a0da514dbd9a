// Advances the simulated DMA engines of a core, and reports the ends of transfers to the core.
#include "models/dma/dma_rings.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

#include "isa/base/error.hpp"

namespace nkisim::models {
namespace {

constexpr QueueIndex kCollectiveQueue = kNoQueue - 1;  // its packets alternate with the others

constexpr Fs kAskAgain = 1'000'000;  // what others delay is looked at again after this much

// An engine's finish becomes visible only after the semaphore latency, so engines may be looked at
// up to that much late: one activation then serves many of them. A stack that limits them is
// settled for what was before an instant alone.
Fs slack_of(const DmaConfig& config, bool limits) {
  return std::max<Fs>(limits ? 1 : 0, config.semaphore_latency - 1);
}

// Replaces the characters that SystemC would replace in a name.
std::string module_name(std::string name) {
  for (char& c : name) {
    if (c == '.' || std::isspace(static_cast<unsigned char>(c)) != 0) c = '_';
  }
  return name;
}

}  // namespace

DmaRings::DmaRings(const sc_core::sc_module_name& name, CoreId id,
                   std::reference_wrapper<const DmaConfig> config,
                   const std::vector<std::string>& queues, const Options& options)
    : sc_module(name),
      id_(id),
      config_(config),
      options_(options),
      planner_(config),
      planned_(static_cast<std::size_t>(config.get().engines), kNever),
      starts_(planned_) {
  for (int e = 0; e < config_.engines; ++e) {
    engines_.push_back(std::make_unique<DmaEngine>(("engine" + std::to_string(e)).c_str(), config));
    lanes_.push_back(&engines_.back()->lane());
    if (options_.packets) lanes_.back()->record(packets_);
  }
  for (const std::string& queue : queues) {
    const auto [found, fresh] = by_name_.try_emplace(queue);
    if (!fresh) continue;
    queues_.push_back(std::make_unique<DmaQueue>(module_name(queue).c_str(), config));
    found->second = queues_.back().get();
  }
  alone_.first.shares.resize(lanes_.size());
  alone_.second.shares.resize(lanes_.size());
  alone_.left.resize(lanes_.size());
  alone_.order.resize(lanes_.size());
  std::iota(alone_.order.begin(), alone_.order.end(), 0U);
}

DmaRings::~DmaRings() = default;

void DmaRings::end_of_elaboration() {
  hbm_ = hbm.operator->();
  core_ = core.operator->();
  for (DmaLane* lane : lanes_) lane->reach(*hbm_);
  if (hbm_->limits()) hbm_->join(*this);
  requests_ = hbm_->requests();
  if (requests_ == nullptr) {
    slack_ = slack_of(config_, hbm_->limits());
    return;
  }
  if (options_.program != nullptr) layout_ = HbmLayout(*options_.program);
  for (std::size_t e = 0; e < lanes_.size(); ++e) {
    lanes_[e]->ask_by([this, e](const LaneRequest& packet) { ask(e, packet); },
                      requests_->outstanding());
  }
}

void DmaRings::number(const std::string& queue, QueueIndex index) {
  const auto found = by_name_.find(queue);
  if (found == by_name_.end()) return;
  if (index >= by_index_.size()) by_index_.resize(index + 1U);
  by_index_[index] = found->second;
}

DmaQueue& DmaRings::queue_of(const Operation& op) const {
  if (op.queue < by_index_.size() && by_index_[op.queue] != nullptr) return *by_index_[op.queue];
  isa::Error error(isa::Rule::internal_error,
                   "internal error: " + std::string(name()) + " has none of its " +
                       std::to_string(queues_.size()) + " queues for number " +
                       std::to_string(op.queue) + ", which a transfer takes");
  throw error.at(isa::spec(*op.step.inst).name, op.step.inst->loc);
}

Transfer* DmaRings::allocate() {
  Transfer& t = store_.take();
  t = {};
  return &t;
}

void DmaRings::submit(Operation& op, const DgeConfig& dge, Fs first_packet) {
  if (hbm_->limits()) hbm_->settle(core_->now());
  const isa::DmaWork& work = op.dma();
  Transfer* t = allocate();
  t->op = &op;
  t->plan = planner_.plan(work, op.step.inst->dma, dge);
  t->packets = t->plan->packets;
  t->lanes_left = static_cast<int>(t->plan->lanes.size());
  const isa::DmaPlan* plan = op.step.inst->dma;
  t->each_update = plan != nullptr && plan->semaphore >= 0;
  t->updates_left = t->each_update ? t->lanes_left : 1;
  t->queue = &queue_of(op);
  first_packet = t->queue->begin(first_packet, dge, work.descriptors);
  if (work.src == isa::Space::kHbm) first_packet += config_.hbm_read_latency;
  ++outstanding_.at(static_cast<std::size_t>(op.dge));
  if (!add_alone(*t, first_packet)) {
    for (std::size_t e = 0; e < lanes_.size(); ++e) push(e, first_packet, *t);
  }
  core_->dma_sooner();
}

void DmaRings::push(std::size_t e, Fs ready, Transfer& transfer) {
  const LanePlan& lane = transfer.plan->lanes[e];
  if (lanes_[e]->push(transfer.op->queue, ready + lane.offset, lane.load, &transfer)) {
    look_sooner(e);
  }
}

// A stack that limits engines is settled once for an instant. If a queue has joined another since,
// so that its finish seems to be over, the engine is looked at right after this instant.
void DmaRings::step(Fs now) {
  catch_up(now);
  if (hbm_->limits() && requests_ == nullptr) {
    soonest_ = std::max(soonest_, now + 1 - slack_);
  }
  while (!updates_.empty() && updates_.top().time <= now) {
    const Event e = updates_.top();
    updates_.pop();
    update(*e.transfer, e.engine, now);
  }
}

void DmaRings::catch_up(Fs now) {
  if (hbm_->limits()) {
    hbm_->settle(now);
  } else {
    take_until(now, false);
  }
}

// Finishes everything up to `now` in the order of the semaphore writes.
void DmaRings::take_until(Fs now, bool every) {
  if (soonest_ > now && !every) return;
  finished_.clear();
  done_.clear();
  if (!alone_.pending.empty() && !alone_.split && take_alone(now)) return;
  soonest_ = kNever;
  HbmAhead ahead;
  for (std::size_t e = 0; e < lanes_.size(); ++e) {
    if (planned_[e] <= now || (every && starts_[e] <= now)) look_at(e, now);
    soonest_ = std::min(soonest_, planned_[e]);
    ahead.next = std::min(ahead.next, starts_[e]);
    ahead.busy += starts_[e] == kNever ? 0 : 1;
  }
  ahead_ = ahead;
  end_split();
  if (finished_.empty()) return;
  std::sort(finished_.begin(), finished_.end());
  for (const Finished& f : finished_) finish_lane(f.engine, done_[f.at]);
}

// No completion is reported: the operation's own time is models/collective's.
void DmaRings::occupy(double bytes) {
  const auto share =
      static_cast<std::int64_t>(std::ceil(bytes / static_cast<double>(lanes_.size())));
  if (share <= 0) return;
  const auto [load, is_new] = collective_loads_.try_emplace(share);
  if (is_new) {
    const Fs time = from_ns(static_cast<double>(share) / config_.bytes_per_ns);
    load->second.add({1, share, time + config_.packet_gap, time});
  }
  const Fs now = core_->now();
  catch_up(now);
  simulate_packets();
  for (std::size_t e = 0; e < lanes_.size(); ++e) {
    if (lanes_[e]->push(kCollectiveQueue, now, load->second, nullptr)) look_sooner(e);
  }
  core_->dma_sooner();
}

int DmaRings::outstanding(isa::DgeMode mode) {
  catch_up(core_->now());
  core_->dma_sooner();
  return outstanding_.at(static_cast<std::size_t>(mode));
}

Fs DmaRings::backlog(QueueIndex queue, std::int64_t bytes) {
  const Fs now = core_->now();
  simulate_packets();
  if (hbm_->limits()) {
    hbm_->settle_all(now);
  } else {
    take_until(now, true);
  }
  core_->dma_sooner();
  Fs at = now;
  for (const DmaLane* lane : lanes_) {
    const Fs fallen = lane->backlog(queue, bytes);
    if (fallen > 0) at = std::max(at, std::max(fallen, now + kAskAgain));
  }
  return at;
}

void DmaRings::look_at(std::size_t e, Fs now) {
  if (alone_.split && alone_.left[e] && take_left(e, now)) return;
  const auto engine = static_cast<int>(e);
  std::size_t at = done_.size();
  lanes_[e]->advance(now, done_);
  report_packets(engine);
  for (; at < done_.size(); ++at) {
    finished_.push_back({done_[at].semaphore_start, engine, static_cast<std::uint32_t>(at)});
  }
  planned_[e] = lanes_[e]->next();
  starts_[e] = lanes_[e]->earliest();
}

void DmaRings::report_packets(int engine) {
  for (const PacketTime& p : packets_) {
    if (p.transfer == nullptr) continue;  // of a collective operation
    core_->dma_packet(*static_cast<Transfer*>(p.transfer), engine, p);
  }
  packets_.clear();
}

// An engine may have to be looked at sooner than was planned.
void DmaRings::look_sooner(std::size_t e) {
  planned_[e] = std::min(planned_[e], lanes_[e]->next());
  soonest_ = std::min(soonest_, planned_[e]);
  if (starts_[e] == kNever) ++ahead_.busy;
  starts_[e] = lanes_[e]->earliest();
  ahead_.next = std::min(ahead_.next, starts_[e]);
}

void DmaRings::finish_lane(int engine, const LaneDone& done) {
  if (done.transfer == nullptr) return;  // of a collective operation
  auto& t = *static_cast<Transfer*>(done.transfer);
  const LanePlan& plan = t.plan->lanes[static_cast<std::size_t>(engine)];
  if (plan.packets > 0) {
    t.first_packet = std::min(t.first_packet, done.start);
    t.last_packet = std::max(t.last_packet, done.payload_end);
    if (options_.shares) core_->dma_share(t, plan, done);
  }
  if (--t.lanes_left == 0) whole(t, done.semaphore_start);
  const Fs arrives = t.queue->arrive(done.semaphore_start);
  t.visible = std::max(t.visible, arrives);
  if (t.each_update) {
    updates_.push({arrives, order_++, &t, engine});
  } else if (t.lanes_left == 0) {
    updates_.push({t.visible, order_++, &t, engine});
  }
}

// All engines have finished it, the last of them now; nothing has moved where every row is skipped.
void DmaRings::whole(Transfer& t, Fs now) {
  if (t.first_packet == kNever) t.first_packet = t.last_packet = now;
  --outstanding_.at(static_cast<std::size_t>(t.op->dge));
  t.queue->end();
}

void DmaRings::update(Transfer& transfer, int engine, Fs now) {
  transfer.visible = now;
  core_->dma_update(transfer, engine);
  if (--transfer.updates_left > 0) return;
  core_->dma_done(transfer);
  store_.give_back(transfer);
}

}  // namespace nkisim::models
