// Executes a core's control flow, and puts each instruction into the queue of its engine.
#include "models/issue/dispatcher.hpp"

#include <algorithm>

#include "models/dma/dma_queue.hpp"

namespace nkisim::models {
namespace {

std::size_t index(isa::Engine engine) { return static_cast<std::size_t>(engine); }

// Instructions in flight beyond which the walk does not run ahead for an engine without work.
constexpr std::size_t kMaxRunAhead = 1U << 17U;

// The place of an engine's semaphore among those of its core, DMAs behind all of them.
constexpr std::array<int, isa::kEngineCount> kSemaphoreOrder = [] {
  std::array<int, isa::kEngineCount> order{};
  int next = 0;
  for (const isa::Engine e : {isa::Engine::kGpSimd, isa::Engine::kScalar, isa::Engine::kTensor,
                              isa::Engine::kVector, isa::Engine::kSync}) {
    order.at(static_cast<std::size_t>(e)) = next++;
  }
  return order;
}();

int semaphore_order(QueueIndex queue) {
  return queue < isa::kEngineCount ? kSemaphoreOrder.at(queue) : isa::kEngineCount;
}

void each_register(const isa::TensorRef& ref, const std::function<void(std::int64_t)>& fn) {
  for (const isa::DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind == isa::DynamicOffset::Kind::kRegister) fn(d->reg);
    if (d->index != nullptr) each_register(*d->index, fn);
  }
}

}  // namespace

Dispatcher::Dispatcher(const isa::Program& program, std::reference_wrapper<const Config> config,
                       int core, isa::CoreState& state, isa::EvalContext* context,
                       Completions& completions, Options options)
    : program_(program),
      config_(config),
      state_(state),
      context_(context),
      completions_(completions),
      options_(std::move(options)),
      // With values they are checked when the instruction runs, and what ran before it is complete.
      walker_(program, core, state, !options_.evaluate),
      dependences_(program, isa::kEngineCount, completions),
      placer_(completions),
      forms_(program.machine()) {
  for (std::size_t e = 0; e < used_.size(); ++e) {
    used_.at(e) = program.uses(static_cast<isa::Engine>(e), core);
  }
  for (const PortRule& rule : config_.ports) ported_ |= rule.engines;
}

Operation* Dispatcher::front(isa::Engine engine) {
  Queue& q = queue(engine);
  if (!used_.at(index(engine))) return nullptr;
  while (q.empty() && in_flight_ < kMaxRunAhead && walk()) {
  }
  starved_ |= q.empty() && in_flight_ >= kMaxRunAhead;
  return q.empty() ? nullptr : q.front();
}

void Dispatcher::pop(isa::Engine engine) { queue(engine).pop_front(); }

bool Dispatcher::recycle(Operation* op) {
  forms_.release(*op->form);
  store_.give_back(*op);
  --in_flight_;
  if (!starved_ || in_flight_ > kMaxRunAhead / 2) return false;
  starved_ = false;
  return true;
}

bool Dispatcher::walk() {
  if (held_ || ended_) return false;
  const auto step = walker_.next();
  if (!step) {
    ended_ = true;
    return false;
  }
  ++count_;
  dispatch(*step);
  return true;
}

Operation* Dispatcher::make(const isa::Step& step, isa::Engine engine) {
  Operation* op = &store_.take();
  ++in_flight_;
  op->step = step;
  op->needs.clear();
  op->registers.clear();
  op->engine = engine;
  op->number = 0;
  op->added_waits = 0;
  op->dge = isa::DgeMode::kNone;
  op->memory = {};
  op->moved.reset();
  op->evaluate = op->holds_walk = false;
  op->rendezvous = isa::spec(*step.inst).rendezvous ? ++meetings_ : 0;
  op->met = kNever;
  op->form = &forms_.take(*step.inst, engine);
  return op;
}

void Dispatcher::put(Operation* op) {
  queue(op->engine).push_back(op);
  if (options_.on_queued) options_.on_queued(op->engine);
}

// Loops and branches are run by every sequencer that takes part in the program.
void Dispatcher::dispatch_control(const isa::Step& step) {
  for (std::size_t e = 0; e < queues_.size(); ++e) {
    if (!used_[e]) continue;
    Operation* op = make(step, static_cast<isa::Engine>(e));
    wait_for_walk(*op);
    put(op);
  }
}

void Dispatcher::dispatch(const isa::Step& step) {
  const isa::OpSpec& spec = isa::spec(*step.inst);
  if (spec.control != isa::OpSpec::Control::kNone) {
    dispatch_control(step);
    return;
  }
  Operation* op = make(step, step.inst->engine);
  wait_for_walk(*op);
  if (spec.on_sequencer) {
    // Takes effect in program order: later addresses and branches read it.
    if (context_ != nullptr) context_->run(*step.inst);
  } else {
    op->evaluate = options_.evaluate && spec.eval != nullptr;
    if (spec.loads_register) {
      if (!options_.evaluate) {
        isa::Error e(isa::Rule::timing_only_values,
                     "loads a register from memory, which a timing-only run does not have");
        throw e.at(spec.name, step.inst->loc);
      }
      op->holds_walk = held_ = true;
    }
    if (op->evaluate && !op->holds_walk) snapshot(*op);
    choose_queue(*op);
    if (!program_.explicit_semaphores() && config_.compiler.infer_dependences) derive_needs(*op);
    if (op->holds_walk) holder_ = {op->queue, 0, op->number};
    if ((ported_ >> index(op->engine) & 1U) != 0) note_memory(*op);
  }
  put(op);
}

// Registers may change before the instruction completes: remember what it was issued with.
void Dispatcher::snapshot(Operation& op) {
  const auto keep = [&](std::int64_t reg) { op.registers.emplace_back(reg, state_.reg(reg)); };
  for (const isa::Arg& arg : op.step.inst->args) {
    if (arg.kind == isa::Arg::Kind::kRegister) keep(arg.integer);
    if (arg.kind == isa::Arg::Kind::kTensor && arg.tensor->dynamic != nullptr) {
      each_register(*arg.tensor, keep);
    }
    if (arg.kind != isa::Arg::Kind::kTensors) continue;
    for (const isa::TensorRef* ref : *arg.tensors) each_register(*ref, keep);
  }
}

QueueIndex Dispatcher::dma_queue(const Operation& op) {
  const isa::Inst& inst = *op.step.inst;
  const auto e = index(op.engine);
  const auto count =
      static_cast<std::uint32_t>(std::max(1, config_.compiler.dma_queues_per_engine));
  const bool named = inst.dma != nullptr && inst.dma->queue_name < program_.queues().size();
  const std::uint32_t ring = named ? 0 : next_dma_queue_.at(e)++ % count;
  const std::uint32_t key = named ? 0x10000U + inst.dma->queue_name
                                  : (static_cast<std::uint32_t>(op.dge) * isa::kEngineCount +
                                     static_cast<std::uint32_t>(e)) *
                                            count +
                                        ring;
  const auto found = dma_queues_.find(key);
  if (found != dma_queues_.end()) return found->second;
  const QueueIndex q = completions_.add_queue();
  dma_queues_.emplace(key, q);
  if (!options_.on_queue) return q;
  options_.on_queue(q, named ? program_.queues()[inst.dma->queue_name]
                             : dma_queue_name(op.dge, op.engine, ring, static_cast<int>(count)));
  return q;
}

QueueIndex Dispatcher::collective_queue() {
  if (collectives_ == kNoQueue) {
    collectives_ = completions_.add_queue();
    if (options_.on_queue) options_.on_queue(collectives_, "qCollectives");
  }
  return collectives_;
}

// A completion that was visible before this time delays no instruction any more.
Fs Dispatcher::horizon() const { return options_.clock->now() - options_.settle; }

void Dispatcher::choose_queue(Operation& op) {
  if (op.expansion().is_dma) {
    op.dge = config_.dma.resolve(op.expansion().dma.dge, op.engine);
    op.queue = dma_queue(op);
  } else if (op.expansion().is_collective) {
    op.queue = collective_queue();
  } else {
    op.queue = static_cast<QueueIndex>(op.engine);
  }
  op.number = completions_.begin(op.queue, op.step.sequence, horizon());
}

void Dispatcher::derive_needs(Operation& op) {
  edges_.clear();
  const isa::Inst& inst = *op.step.inst;
  const WaitPlacer::Waiter waiter{.engine = op.engine,
                                  .queue = op.queue,
                                  .number = op.number,
                                  .detached = op.detached() || op.holds_walk};
  dependences_.add(inst, state_, op.queue, op.number, horizon(), placer_.left_out(waiter), edges_);
  if (inst.ordering != 0) {
    const isa::Ordering& ordering = program_.ordering(inst);
    follow(ordering);
    if (ordering.id != 0) ordered_[ordering.id] = {op.queue, 0, op.number};
  }
  placer_.place(waiter, edges_, op.needs);
  add_waits(op);
}

// An instruction that the kernel orders after others waits for their completions, even on its own
// engine.
void Dispatcher::follow(const isa::Ordering& ordering) {
  for (const std::uint32_t id : ordering.after) {
    const auto found = ordered_.find(id);
    if (found == ordered_.end()) continue;
    const Need& earlier = found->second;
    if (completions_.finished_before(earlier.queue, earlier.number, horizon())) continue;
    edges_.push_back({earlier.queue, earlier.number, Edge::Kind::kReadAfterWrite});
  }
}

// An instruction waits for one semaphore, the first in their order. Each further one is waited for
// by an EVENT_SEMAPHORE before it.
void Dispatcher::add_waits(Operation& op) {
  const auto own = static_cast<std::size_t>(config_.compiler.waits_per_instruction);
  if (op.needs.size() <= own) return;
  for (auto need = op.needs.begin(); need != op.needs.end(); ++need) {  // few: sorted by insertion
    const auto after = [&](const Need& other) {
      return semaphore_order(other.queue) < semaphore_order(need->queue);
    };
    std::rotate(std::find_if(op.needs.begin(), need, after), need, need + 1);
  }
  const std::size_t added = op.needs.size() - own;
  for (std::size_t i = 0; i < op.needs.size(); ++i) {
    op.needs[i].part = static_cast<std::uint16_t>(std::min(i, added));
  }
  op.added_waits = static_cast<std::uint16_t>(added);
}

// Addresses after a register load are known only when the load has finished.
void Dispatcher::wait_for_walk(Operation& op) {
  if (holder_.number == 0) return;
  placer_.wait_for(op.engine, holder_.queue, holder_.number, op.needs);
}

void Dispatcher::note_memory(Operation& op) const {
  Form& form = *op.form;
  if (form.memory_of == program_.edits()) {
    op.memory = form.memory;
    return;
  }
  bool fixed = true;
  const std::int64_t bank = program_.machine().psum_bank_bytes();
  const std::int64_t banks = program_.machine().psum_banks;
  isa::for_each_tensor(*op.step.inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    if (ref.space == isa::Space::kSbuf) op.memory.sbuf = true;
    if (ref.space != isa::Space::kPsum) return;
    fixed &= ref.dynamic == nullptr;
    isa::Footprint f;
    find_footprint(ref, program_, state_, f);
    for (std::int64_t b = f.first / bank; b * bank < f.last && b < banks; ++b) {
      op.memory.psum_banks |= 1U << static_cast<unsigned>(b);
    }
  });
  if (!fixed) return;
  form.memory = op.memory;
  form.memory_of = program_.edits();
}

}  // namespace nkisim::models
