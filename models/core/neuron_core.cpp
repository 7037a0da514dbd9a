// Builds the modules of a NeuronCore, and steps its engines and DMA rings in a fixed order.
#include "models/core/neuron_core.hpp"

#include <algorithm>
#include <array>

#include "models/bind_open.hpp"
#include "models/core/rank.hpp"
#include "models/engines/gpsimd_engine.hpp"
#include "models/engines/scalar_engine.hpp"
#include "models/engines/sync_engine.hpp"
#include "models/engines/tensor_engine.hpp"
#include "models/engines/vector_engine.hpp"

namespace nkisim::models {
namespace {

// No wait is influenced by a completion older than this many of the longest wake-up latencies.
constexpr Fs kSettleFactor = 4;

// The order of engines that are due at one instant. Assumed: no source says. On trn1, where VectorE
// and ScalarE share the port of PSUM, this order moves the latency of no example by more than 0.6 %
// from what SystemC's scheduler happened to choose.
constexpr std::array kUnitOrder = {isa::Engine::kTensor, isa::Engine::kScalar, isa::Engine::kVector,
                                   isa::Engine::kGpSimd, isa::Engine::kSync};

std::ptrdiff_t position(isa::Engine engine) {
  return std::find(kUnitOrder.begin(), kUnitOrder.end(), engine) - kUnitOrder.begin();
}

Fs settle_time(const Config& config) {
  Fs longest = config.dma.software.wake_base + config.dma.software.interval_base;
  for (const EngineConfig& e : config.engines) {
    longest = std::max({longest, e.wake, e.wake_sequencer});
  }
  return kSettleFactor * longest + config.dma.software.wake_per_descriptor * 65536;
}

}  // namespace

std::unique_ptr<Engine> make_engine(const char* name, isa::Engine id, const EngineSetup& setup) {
  switch (id) {
    case isa::Engine::kTensor:
      return std::make_unique<TensorEngine>(name, setup);
    case isa::Engine::kVector:
      return std::make_unique<VectorEngine>(name, setup);
    case isa::Engine::kScalar:
      return std::make_unique<ScalarEngine>(name, setup);
    case isa::Engine::kGpSimd:
      return std::make_unique<GpSimdEngine>(name, setup);
    default:
      return std::make_unique<SyncEngine>(name, setup);
  }
}

NeuronCore::NeuronCore(const sc_core::sc_module_name& name, int id, const isa::Program& program,
                       std::reference_wrapper<const Config> config, const CostTable& costs,
                       Clock& clock, isa::Memory& memory, const RunOptions& options,
                       const ObserverList& observers, Rank& rank)
    : sc_module(name),
      id_(id),
      config_(config),
      clock_(clock),
      observers_(observers),
      rank_(rank),
      tie_(options.tie),
      state_(std::make_unique<isa::CoreState>()),
      eval_(std::make_unique<isa::EvalContext>(program, memory, *state_,
                                               options.conditions.unwritten)),
      wake_(clock, "wake") {
  eval_->begin(options.conditions, id);
  state_->rank = options.rank;
  state_->world = options.world;
  for (int e = 0; e < isa::kEngineCount; ++e) {
    name_queue(static_cast<QueueIndex>(e),
               std::string(isa::name(isa::unit_of(static_cast<isa::Engine>(e)))));
  }
  dispatcher_ = std::make_unique<Dispatcher>(program, config, id, *state_, eval_.get(),
                                             completions_, dispatch_options());
  build(program, costs, options);
  SC_HAS_PROCESS(NeuronCore);
  SC_METHOD(step);
  sensitive << wake_.event();
}

NeuronCore::~NeuronCore() = default;

void NeuronCore::build(const isa::Program& program, const CostTable& costs,
                       const RunOptions& options) {
  sbuf_ = std::make_unique<Sbuf>("sbuf", config_.ports);
  psum_ = std::make_unique<Psum>("psum", config_.ports, program.machine().psum_banks);
  semaphores_ = std::make_unique<Semaphores>("semaphores");
  dma_ = std::make_unique<DmaRings>("dma", CoreId{options.rank, id_}, config_.dma,
                                    dma_queue_names(program, config_, id_),
                                    DmaRings::Options{.shares = observers_.active(),
                                                      .packets = observers_.wants_packets(),
                                                      .program = &program});
  const EngineSetup setup{config_, costs, observers_, id_};
  const EngineFactory make = options.engine ? options.engine : make_engine;
  for (int e = 0; e < isa::kEngineCount; ++e) {
    const auto engine = static_cast<isa::Engine>(e);
    engines_.push_back(make(std::string(isa::name(engine)).c_str(), engine, setup));
  }
  std::transform(kUnitOrder.begin(), kUnitOrder.end(), in_order_.begin(), [&](isa::Engine engine) {
    return engines_.at(static_cast<std::size_t>(engine)).get();
  });
}

void NeuronCore::before_end_of_elaboration() {
  bind_open(dma_->hbm, hbm);
  bind_open(dma_->core, static_cast<dma_core_if&>(*this));
  for (Engine* engine : in_order_) {
    bind_open(engine->core, *this);
    bind_open(engine->semaphores, *semaphores_);
    bind_open(engine->dma, *dma_);
    if (auto* compute = dynamic_cast<ComputeEngine*>(engine)) {
      bind_open(compute->sbuf, *sbuf_);
      bind_open(compute->psum, *psum_);
    }
  }
}

void NeuronCore::step() {
  if (clock_.stopped()) return;
  try {
    Fs now = clock_.now();
    acting_ = true;
    next_ = now;
    do {
      now = std::max(now, next_);
      while (next_ <= now && !clock_.stopped()) next_ = act(now);
    } while (next_ != kNever && !clock_.stopped() && clock_.advance(next_));
    acting_ = false;
    if (next_ != kNever) {
      wake_.ring_at(std::max(next_, now));
    } else {
      clock_.quiet();
    }
  } catch (...) {
    clock_.fail(std::current_exception());
    clock_.quiet();
  }
}

// Does what is due, once, and says when something is due next.
Fs NeuronCore::act(Fs now) {
  if (dma_->next() <= now) dma_->step(now);
  if (tie_.shuffles()) {
    tie_.order(in_order_, [](const Engine* a, const Engine* b) {
      return position(a->id()) < position(b->id());
    });
  }
  for (Engine* engine : in_order_) engine->retire(now);
  for (Engine* engine : in_order_) engine->issue(now);
  Fs next = dma_->next();
  for (const Engine* engine : in_order_) next = std::min(next, engine->next());
  return next;
}

// Another core's process may be what wakes an engine of this one.
void NeuronCore::wake(Engine& engine) {
  engine.wake();
  due();
}

void NeuronCore::dma_sooner() { due(); }

void NeuronCore::due() {
  if (acting_) return;
  next_ = clock_.now();
  wake_.ring();
}

Dispatcher::Options NeuronCore::dispatch_options() {
  return {.evaluate = rank_.evaluates(),
          .on_queue = [this](QueueIndex q, const std::string& text) { name_queue(q, text); },
          .settle = settle_time(config_),
          .clock = &clock_,
          .on_queued = observers_.wants_queued()
                           ? std::function<void(isa::Engine)>([this](isa::Engine engine) {
                               observers_.send(QueuedEvent{id_, engine, clock_.now()});
                             })
                           : nullptr};
}

void NeuronCore::name_queue(QueueIndex queue, const std::string& queue_name) {
  queue_names_.resize(std::max<std::size_t>(queue_names_.size(), queue + 1U));
  queue_names_[queue] = queue_name;
  if (dma_ != nullptr) dma_->number(queue_name, queue);
  observers_.queue({id_, queue, queue_name});
}

void NeuronCore::evaluate(Operation& op) {
  if (!op.evaluate) return;
  issued_registers(op, [&] {
    const bool meets = op.rendezvous != 0 && rank_.several_cores();
    eval_->run(*op.step.inst, meets ? &op.received : nullptr);
  });
  op.received = {};
}

isa::Parcel NeuronCore::send(const Operation& op) {
  isa::Parcel parcel;
  issued_registers(op, [&] { parcel = eval_->send(*op.step.inst); });
  return parcel;
}

// Registers may have changed since the instruction was issued.
template <typename Fn>
void NeuronCore::issued_registers(const Operation& op, Fn&& fn) {
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

void NeuronCore::wake_all() {
  for (Engine* e : in_order_) wake(*e);
}

void NeuronCore::wake_waiters(const Operation& op) {
  for (Engine* e : in_order_) {
    if (e->waits_for(op.queue, op.number)) wake(*e);
  }
}

void NeuronCore::release(Operation& op) {
  if (--op.pending > 0) return;
  if (dispatcher_->recycle(&op)) wake_all();
}

void NeuronCore::finish(Operation& op, Fs end) {
  rank_.count_one();
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
    completions_.finish(op.queue, op.number, end, clock_.now());
    wake_waiters(op);
  }
  post(op, false, end);
  const bool held = op.holds_walk;
  release(op);
  if (held) wake_all();
}

void NeuronCore::update(const isa::SemaphorePost& post, const Operation& op, Fs end) {
  semaphores_->update(post, {.time = clock_.now(),
                             .value = 0,
                             .queue = op.queue,
                             .sequence = op.step.sequence,
                             .end = end});
  if (observers_.active()) {
    observers_.send(SemaphoreEvent{id_, post.semaphore, semaphores_->value(post.semaphore),
                                   clock_.now(), op.step.inst});
  }
  for (Engine* e : in_order_) {
    if (e->blocked_semaphore() == post.semaphore) wake(*e);
  }
}

void NeuronCore::post(const Operation& op, bool at_issue, Fs end) {
  if (op.step.inst->sync == nullptr) return;
  for (const isa::SemaphorePost& p : op.step.inst->sync->posts) {
    if (p.at_issue == at_issue) update(p, op, end);
  }
}

bool NeuronCore::rendezvous(Operation& op, Fs now, Fs& since) {
  return rank_.meet(id_, op, now, since);
}

// The rows that are left fall into pieces like those of all.
void NeuronCore::skip_rows(Operation& op) {
  if (!op.evaluate) return;
  isa::EvalContext::Moved found;
  issued_registers(op, [&] { found = eval_->moved_rows(*op.step.inst); });
  if (found.rows == found.all) return;
  isa::DmaWork work = op.expansion().dma;
  const std::int64_t all = work.descriptors;
  const auto part = [&](std::int64_t whole) {
    return (whole * found.rows + found.all - 1) / found.all;
  };
  work.descriptors = part(all);
  work.bytes = part(work.bytes);
  work.rows = std::min(work.rows, found.span);
  work.skipped = all - work.descriptors;
  op.moved = work;
}

void NeuronCore::start_collective(Operation& op, Fs triggered) {
  rank_.start_collective(id_, op, triggered);
}

void NeuronCore::finish_collective(Operation& op, Fs end, const RankPart* part) {
  dma_end_ = std::max(dma_end_, end);
  if (part != nullptr && observers_.active()) {
    observers_.send(CollectiveEvent{.inst = op.step.inst,
                                    .sequence = op.step.sequence,
                                    .core = id_,
                                    .queue = op.queue,
                                    .engine = op.engine,
                                    .trigger_start = op.trigger_start,
                                    .trigger_end = op.trigger_end,
                                    .rank = rank_.number(),
                                    .part = part});
  }
  completions_.finish(op.queue, op.number, end, clock_.now());
  wake_waiters(op);
  post(op, false, end);
  release(op);
}

void NeuronCore::dma_update(Transfer& transfer, int engine) {
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

void NeuronCore::dma_done(Transfer& transfer) {
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
                             .work = &op.dma(),
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

void NeuronCore::dma_share(const Transfer& transfer, const LanePlan& plan, const LaneDone& done) {
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

void NeuronCore::dma_packet(const Transfer& transfer, int engine, const PacketTime& packet) {
  observers_.send(DmaPacketEvent{.core = id_,
                                 .engine = engine,
                                 .queue = packet.queue,
                                 .sequence = transfer.op->step.sequence,
                                 .inst = transfer.op->step.inst,
                                 .start = packet.start,
                                 .end = packet.start + packet.duration,
                                 .bytes = packet.bytes});
}

std::vector<const Engine*> NeuronCore::blocked() const {
  std::vector<const Engine*> list;
  for (const auto& e : engines_) {
    if (e->blocked() != nullptr) list.push_back(e.get());
  }
  return list;
}

Fs NeuronCore::end() const {
  Fs end = dma_end_;
  for (const auto& e : engines_) end = std::max(end, e->end());
  return end;
}

}  // namespace nkisim::models
