#include "models/core.hpp"

#include <algorithm>

#include "models/device.hpp"

namespace nkisim::models {
namespace {

// No wait is influenced by a completion older than this many of the longest wake-up latencies.
constexpr Fs kSettleFactor = 4;

Fs settle_time(const Config& config) {
  Fs longest = config.dma.software.wake_base + config.dma.software.interval_base;
  for (const EngineConfig& e : config.engines) {
    longest = std::max({longest, e.wake, e.wake_sequencer});
  }
  return kSettleFactor * longest + config.dma.software.wake_per_descriptor * 65536;
}

}  // namespace

Core::Core(int id, const isa::Program& program, const Config& config, const CostTable& costs,
           SimSession& session, isa::Memory& memory, const RunOptions& options,
           const ObserverList& observers, Device& device)
    : id_(id),
      config_(config),
      observers_(observers),
      device_(device),
      state_(std::make_unique<isa::CoreState>()),
      eval_(std::make_unique<isa::EvalContext>(program, memory, *state_,
                                               options.conditions.unwritten)),
      ports_(config.ports) {
  eval_->begin(options.conditions, id);
  state_->rank = options.rank;
  state_->world = options.world;
  for (int e = 0; e < isa::kEngineCount; ++e) {
    name_queue(static_cast<QueueIndex>(e),
               std::string(isa::name(isa::unit_of(static_cast<isa::Engine>(e)))));
  }
  dispatcher_ = std::make_unique<Dispatcher>(program, config, id, *state_, eval_.get(),
                                             completions_, dispatch_options());
  const std::string prefix =
      "rank" + std::to_string(options.rank) + "_core" + std::to_string(id) + "_";
  dma_ = std::make_unique<DmaRings>(
      (prefix + "dma").c_str(), CoreId{options.rank, id}, config.dma,
      dma_queue_names(program, config, id),
      DmaRings::Options{.shares = observers.active(), .packets = observers.wants_packets()});
  dma_->hbm.bind(device.hbm());
  dma_->core.bind(*this);
  dma_process_ = std::make_unique<DmaProcess>((prefix + "dma_process").c_str(), *dma_, session);
  const EngineContext context{config,       costs,        program,     session,
                              *dispatcher_, completions_, semaphores_, ports_,
                              observers_,   *this,        id};
  for (std::size_t e = 0; e < engines_.size(); ++e) {
    const auto engine = static_cast<isa::Engine>(e);
    engines_.at(e) = std::make_unique<Engine>((prefix + std::string(isa::name(engine))).c_str(),
                                              engine, context);
  }
}

Dispatcher::Options Core::dispatch_options() {
  return {.evaluate = device_.evaluates(),
          .on_queue = [this](QueueIndex q, const std::string& text) { name_queue(q, text); },
          .settle = settle_time(config_)};
}

void Core::name_queue(QueueIndex queue, const std::string& queue_name) {
  queue_names_.resize(std::max<std::size_t>(queue_names_.size(), queue + 1U));
  queue_names_[queue] = queue_name;
  if (dma_ != nullptr) dma_->number(queue_name, queue);
  observers_.queue({id_, queue, queue_name});
}

void Core::evaluate(Operation& op) {
  if (!op.evaluate) return;
  issued_registers(op, [&] {
    const bool meets = op.rendezvous != 0 && device_.several_cores();
    eval_->run(*op.step.inst, meets ? &op.received : nullptr);
  });
  op.received = {};
}

isa::Parcel Core::send(const Operation& op) {
  isa::Parcel parcel;
  issued_registers(op, [&] { parcel = eval_->send(*op.step.inst); });
  return parcel;
}

// Registers may have changed since the instruction was issued.
template <typename Fn>
void Core::issued_registers(const Operation& op, Fn&& fn) {
  std::vector<std::int64_t> current;
  for (const auto& [reg, value] : op.registers) {
    current.push_back(state_->reg(reg));
    state_->set_reg(reg, value);
  }
  fn();
  for (std::size_t i = current.size(); i-- > 0;) {
    state_->set_reg(op.registers[i].first, current[i]);
  }
}

void Core::wake_all() {
  for (const auto& e : engines_) e->wake();
}

void Core::wake_waiters(const Operation& op) {
  for (const auto& e : engines_) {
    if (e->waits_for(op.queue, op.number)) e->wake();
  }
}

void Core::release(Operation& op) {
  if (--op.pending > 0) return;
  if (dispatcher_->recycle(&op)) wake_all();
}

void Core::finish(Operation& op, Fs end) {
  device_.count_one();
  if (op.expansion().is_collective) {
    release(op);
    return;
  }
  if (op.expansion().is_dma) {
    const isa::DmaPlan* plan = op.step.inst->dma;
    if (plan != nullptr && plan->semaphore >= 0) post(op, false, end);
    release(op);
    return;
  }
  if (isa::spec(*op.step.inst).collective.part == isa::Collective::Part::kPrepare) prepared_ = end;
  evaluate(op);
  if (op.holds_walk) dispatcher_->resume();
  if (op.number != 0) {
    completions_.finish(op.queue, op.number, end, SimSession::now());
    wake_waiters(op);
  }
  post(op, false, end);
  const bool held = op.holds_walk;
  release(op);
  if (held) wake_all();
}

void Core::update(const isa::SemaphorePost& post, const Operation& op, Fs end) {
  semaphores_.update(post, {.time = SimSession::now(),
                            .value = 0,
                            .queue = op.queue,
                            .sequence = op.step.sequence,
                            .end = end});
  if (observers_.active()) {
    observers_.send(SemaphoreEvent{id_, post.semaphore, semaphores_.value(post.semaphore),
                                   SimSession::now(), op.step.inst});
  }
  for (const auto& e : engines_) {
    if (e->blocked_semaphore() == post.semaphore) e->wake();
  }
}

void Core::post(const Operation& op, bool at_issue, Fs end) {
  if (op.step.inst->sync == nullptr) return;
  for (const isa::SemaphorePost& p : op.step.inst->sync->posts) {
    if (p.at_issue == at_issue) update(p, op, end);
  }
}

void Core::start_dma(Operation& op, const DgeConfig& dge, Fs first_packet) {
  dma_->submit(op, dge, first_packet);
}

int Core::outstanding(isa::DgeMode mode) const { return dma_->outstanding(mode); }

Fs Core::room(QueueIndex queue, std::int64_t bytes) const { return dma_->backlog(queue, bytes); }

bool Core::rendezvous(Operation& op, Fs now, Fs& since) {
  return device_.meet(id_, op, now, since);
}

void Core::start_collective(Operation& op, Fs triggered) {
  device_.start_collective(id_, op, triggered);
}

void Core::finish_collective(Operation& op, Fs end, const RankPart* part) {
  dma_end_ = std::max(dma_end_, end);
  if (part != nullptr && observers_.active()) {
    observers_.send(CollectiveEvent{.inst = op.step.inst,
                                    .sequence = op.step.sequence,
                                    .core = id_,
                                    .queue = op.queue,
                                    .engine = op.engine,
                                    .trigger_start = op.trigger_start,
                                    .trigger_end = op.trigger_end,
                                    .rank = device_.rank(),
                                    .part = part});
  }
  completions_.finish(op.queue, op.number, end, SimSession::now());
  wake_waiters(op);
  post(op, false, end);
  release(op);
}

void Core::dma_update(Transfer& transfer, int engine) {
  const isa::DmaPlan* plan = transfer.op->step.inst->dma;
  if (plan == nullptr || plan->semaphore < 0) return;
  const int engines = config_.dma.engines;
  const int left_over = engine < plan->increment % engines ? 1 : 0;
  const isa::SemaphorePost share{.semaphore = static_cast<std::uint16_t>(plan->semaphore),
                                 .action = isa::SemaphorePost::Action::kAdd,
                                 .at_issue = false,
                                 .value = plan->increment / engines + left_over};
  update(share, *transfer.op, transfer.last_packet);
}

void Core::dma_done(Transfer& transfer) {
  Operation& op = *transfer.op;
  dma_end_ = std::max(dma_end_, transfer.visible);
  evaluate(op);
  completions_.finish(op.queue, op.number, transfer.last_packet, transfer.visible);
  wake_waiters(op);
  if (observers_.active()) {
    observers_.send(DmaEvent{.inst = op.step.inst,
                             .sequence = op.step.sequence,
                             .core = id_,
                             .queue = op.queue,
                             .mode = op.dge,
                             .work = &op.expansion().dma,
                             .trigger_start = op.trigger_start,
                             .trigger_end = op.trigger_end,
                             .first_packet = transfer.first_packet,
                             .last_packet = transfer.last_packet,
                             .visible = transfer.visible,
                             .packets = transfer.packets});
  }
  const isa::DmaPlan* plan = op.step.inst->dma;
  if (plan == nullptr || plan->semaphore < 0) post(op, false, transfer.last_packet);
  release(op);
}

void Core::dma_share(const Transfer& transfer, const LanePlan& plan, const LaneDone& done) {
  observers_.send(DmaLaneEvent{.core = id_,
                               .engine = plan.engine,
                               .queue = done.queue,
                               .sequence = transfer.op->step.sequence,
                               .inst = transfer.op->step.inst,
                               .start = done.start,
                               .end = done.payload_end,
                               .bytes = plan.bytes,
                               .packets = plan.packets,
                               .packet_bytes = plan.packet_bytes});
}

void Core::dma_packet(const Transfer& transfer, int engine, const PacketTime& packet) {
  observers_.send(DmaPacketEvent{.core = id_,
                                 .engine = engine,
                                 .queue = packet.queue,
                                 .sequence = transfer.op->step.sequence,
                                 .inst = transfer.op->step.inst,
                                 .start = packet.start,
                                 .end = packet.start + packet.duration,
                                 .bytes = packet.bytes});
}

std::vector<const Engine*> Core::blocked() const {
  std::vector<const Engine*> list;
  for (const auto& e : engines_) {
    if (e->blocked() != nullptr) list.push_back(e.get());
  }
  return list;
}

Fs Core::end() const {
  Fs end = dma_end_;
  for (const auto& e : engines_) end = std::max(end, e->end());
  return end;
}

}  // namespace nkisim::models
