#include "models/engine.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

// Issued instructions whose end lies ahead; more are issued only when some have ended.
constexpr std::size_t kMaxInFlight = 64;

}  // namespace

Engine::Engine(sc_core::sc_module_name name, isa::Engine id, EngineContext context)
    : sc_module(name),
      id_(id),
      context_(context),
      config_(context.config.engines.at(static_cast<std::size_t>(id))),
      costs_(context.costs),
      wait_{.opcode = isa::Opcode::kEVENT_SEMAPHORE, .unit = isa::unit_of(id)},
      array_(context.config),
      ready_(config_.start),
      handed_(config_.start) {
  SC_HAS_PROCESS(Engine);
  SC_METHOD(step);
  sensitive << wake_;
}

void Engine::step() {
  if (context_.session.stopped()) return;
  try {
    const Fs now = SimSession::now();
    retire(now);
    if (!as_before(now)) {
      do {
        wake_at_ = kNever;
        settled_ = false;
      } while (issue(now) == Progress::kIssued);
    }
    schedule(now);
  } catch (...) {
    context_.session.fail(std::current_exception());
  }
}

// Whether the first instruction still waits for what it waited for when the engine last looked.
bool Engine::as_before(Fs now) const {
  if (settled_) return wake_at_ > now;
  return blocked_queue_ != kNoQueue &&
         context_.completions.get(blocked_queue_, blocked_number_).visible == kNever;
}

void Engine::schedule(Fs now) {
  const Fs next = std::min(wake_at_, later_.empty() ? kNever : later_.front().time);
  if (next != kNever) wake_.notify(SimSession::time(std::max<Fs>(0, next - now)));
}

void Engine::retire(Fs now) {
  while (!later_.empty() && later_.front().time <= now) {
    const Later l = later_.front();
    later_.pop_front();
    if (l.at_issue) {
      context_.host.post(*l.op, true, l.end);
    } else {
      context_.host.finish(*l.op, l.end);
    }
  }
}

void Engine::put_later(Later later) {
  later_.insert(later, [](const Later& a, const Later& b) { return a.time > b.time; });
}

Engine::Progress Engine::sleep_until(Fs time, Fs now) {
  if (time <= now) return Progress::kIssued;
  wake_at_ = time;
  return Progress::kSleep;
}

// As sleep_until, where the time can only become later. Semaphores of the program's own may change.
Engine::Progress Engine::settle_until(const Operation& op, Fs time, Fs now) {
  settled_ = op.step.inst->sync == nullptr && op.rendezvous == 0;
  return sleep_until(time, now);
}

Engine::Progress Engine::issue(Fs now) {
  blocked_queue_ = kNoQueue;
  blocked_semaphore_ = -1;
  if (later_.size() >= kMaxInFlight) return Progress::kSleep;
  Operation* op = context_.dispatcher.front(id_);
  if (op == nullptr) return Progress::kBlocked;
  return issue_part(*op, now);
}

// Decisions that others can influence until the moment itself may not be taken ahead of time.
bool Engine::at_own_time(const Operation& op, PartKind kind) const {
  if (part_ < op.added_waits) return false;
  if (kind == PartKind::kDmaTrigger || op.expansion().is_dma) return true;
  return kind != PartKind::kSequencer && context_.ports.concerns(id_) &&
         (op.ports.sbuf || op.ports.psum_banks != 0);
}

const isa::Part& Engine::part_of(const Operation& op) const {
  return part_ < op.added_waits ? wait_ : op.expansion().parts[part_ - op.added_waits];
}

const Cost& Engine::cost_of(const Operation& op) {
  Cost& cost = part_ < op.added_waits ? wait_cost_ : op.form->costs[part_ - op.added_waits];
  if (cost.rule == nullptr) cost = context_.costs.cost(part_of(op));
  return cost;
}

Engine::Progress Engine::issue_part(Operation& op, Fs now) {
  const isa::Part& part = part_of(op);
  const Cost& cost = cost_of(op);
  const std::uint32_t table =
      op.expansion().parts[std::max<std::size_t>(part_, op.added_waits) - op.added_waits].act_table;
  if (table != 0 && table != table_) load_table(op, table);
  const isa::Sync* sync = part_ == 0 ? op.step.inst->sync : nullptr;
  if (sync != nullptr && !sync->waits.empty() && ready_ > now) return sleep_until(ready_, now);
  Wait wait{.ready = ready_};
  if (!find_wait(op, wait)) return Progress::kBlocked;
  const bool added = part_ < op.added_waits;
  if (op.rendezvous != 0 && !added) {
    const Fs here = std::max(wait.ready, wait.awake);
    if (here > now) return sleep_until(here, now);
    if (!context_.host.rendezvous(op, now, wait.awake)) {
      rendezvous_ = "the other core";
      return Progress::kBlocked;
    }
    rendezvous_.clear();
  }
  const bool sequencer = cost.kind == PartKind::kSequencer;
  if (wait.visible > 0) {
    wait.awake =
        std::max(wait.awake, wait.visible + (sequencer ? config_.wake_sequencer : config_.wake));
  }
  if (cost.kind == PartKind::kPipe) wait.pipe_free = std::max(wait.pipe_free, pipe_free_);
  if (!added && (cost.kind == PartKind::kDmaTrigger || op.expansion().is_dma)) {
    return trigger_dma(op, part, cost, wait, now);
  }
  if (!added && op.expansion().is_collective) {
    return trigger_collective(op, part, cost, wait, now);
  }
  if (cost.kind == PartKind::kArray) return run_array(op, part, cost, wait);
  return run_part(op, part, cost, wait, now);
}

// What bounds the start of the next part; false if something it needs has not happened yet.
bool Engine::find_wait(const Operation& op, Wait& wait) {
  if (!wait_for_needs(op, wait)) return false;
  const isa::Sync* sync = op.step.inst->sync;
  return part_ != 0 || sync == nullptr || wait_for_semaphores(*sync, wait);
}

bool Engine::only_waits(const Operation& op, const isa::Part& part) const {
  const isa::Sync* sync = op.step.inst->sync;
  return part.opcode == isa::Opcode::kEVENT_SEMAPHORE && (sync == nullptr || sync->posts.empty());
}

bool Engine::wait_for_needs(const Operation& op, Wait& wait) {
  for (const Need& need : op.needs) {
    if (need.part != part_) continue;
    const Completion c = context_.completions.get(need.queue, need.number);
    if (c.visible == kNever) {
      blocked_queue_ = need.queue;
      blocked_number_ = need.number;
      return false;
    }
    if (c.visible > wait.visible) {
      wait.visible = c.visible;
      wait.producer_end = c.end;
      wait.producer = need.queue;
      wait.producer_sequence = c.sequence;
    }
  }
  return true;
}

bool Engine::wait_for_semaphores(const isa::Sync& sync, Wait& wait) {
  for (const isa::SemaphoreWait& w : sync.waits) {
    const auto since = context_.semaphores.satisfied(w);
    if (!since) {
      blocked_semaphore_ = w.semaphore;
      return false;
    }
    if (since->time > wait.visible) {
      wait.visible = since->time;
      wait.producer_end = since->end;
      wait.producer = since->queue;
      wait.producer_sequence = since->sequence;
      wait.semaphore = w.semaphore;
    }
  }
  return true;
}

// The tables an activation needs are loaded just before it, without waiting for its data.
void Engine::load_table(const Operation& op, std::uint32_t table) {
  const isa::Part part{.opcode = isa::Opcode::kACT_TABLE_LOAD, .unit = isa::Unit::kScalar};
  const Cost cost = costs_.cost(part);
  const Wait wait{.ready = ready_, .pipe_free = pipe_free_};
  const Fs start = std::max(ready_, pipe_free_);
  pipe_free_ = start + cost.interval;
  handed_ = ready_ = start + config_.issue;
  table_ = table;
  announce(op, part, cost, wait, start, start + cost.duration);
}

Engine::Progress Engine::run_part(Operation& op, const isa::Part& part, const Cost& cost,
                                  Wait& wait, Fs now) {
  Fs start = std::max({wait.ready, wait.awake, wait.pipe_free});
  if (at_own_time(op, cost.kind)) {
    const Ports::Grant grant = context_.ports.free_at(id_, op.ports, start);
    wait.port_free = grant.at;
    wait.port_holder = grant.holder;
    start = std::max(start, grant.at);
    if (start > now) return settle_until(op, start, now);
    context_.ports.reserve(id_, op.ports, start + cost.interval);
  }
  const Fs end = start + cost.duration;
  if (cost.kind == PartKind::kPipe) {
    pipe_free_ = start + cost.interval;
    ready_ = start + config_.issue;
    handed_ = ready_;
  } else {
    // A wait overtakes what is on its way to the array and holds up only what comes behind it.
    const Fs begun = only_waits(op, part) ? std::max(std::min(handed_, ready_), wait.awake) : start;
    handed_ = begun + cost.duration + config_.gap;
    ready_ = std::max(only_waits(op, part) ? ready_ : 0, handed_);
  }
  after_sequencer_ = cost.kind == PartKind::kSequencer;
  announce(op, part, cost, wait, start, end);
  part_done(op, start, end);
  return Progress::kIssued;
}

Engine::Progress Engine::run_array(Operation& op, const isa::Part& part, const Cost& cost,
                                   Wait& wait) {
  const Fs at = std::max({wait.ready, wait.awake, wait.pipe_free});
  wait.pipe_free = std::max(wait.pipe_free, array_.earliest(part, at));
  const Fs start = std::max(at, wait.pipe_free);
  const Array::Slot slot = array_.run(part, cost, start);
  handed_ = std::max(handed_, wait.awake) + config_.issue;
  ready_ = start + (after_sequencer_ ? config_.issue_after_sequencer : config_.issue);
  after_sequencer_ = false;
  announce(op, part, cost, wait, start, slot.end, &slot);
  part_done(op, start, slot.end);
  return Progress::kIssued;
}

Engine::Progress Engine::trigger_dma(Operation& op, const isa::Part& part, const Cost& cost,
                                     Wait& wait, Fs now) {
  const DgeConfig& dge = context_.config.dma.dge(op.dge);
  const std::int64_t descriptors = op.expansion().dma.descriptors;
  const bool found = dge.dynamic_trigger > 0 && (part.features & isa::kFeatDynamic) != 0;
  if (wait.visible > 0 && dge.wake_base > 0 && !found) {
    wait.awake =
        std::max(wait.awake, wait.visible + dge.wake_base + descriptors * dge.wake_per_descriptor);
  }
  const Fs start = std::max({wait.ready, wait.awake, wait.pipe_free});
  if (start > now) return settle_until(op, start, now);
  Fs end = start + (found ? dge.dynamic_trigger : dge.trigger.at(static_cast<std::size_t>(id_)));
  if (op.rendezvous != 0) end += cost.duration;  // the cores tell each other that they have come
  if (dge.queue_bytes > 0) {
    const Fs room = context_.host.room(op.queue, dge.queue_bytes);
    if (room > now) return sleep_until(std::max(room, end), now);
    end = std::max(end, now);
  }
  if (dge.trigger_per_outstanding > 0 && !found) {
    end += context_.host.outstanding(op.dge) * dge.trigger_per_outstanding;
  }
  ready_ = dge.holds_sequencer || found
               ? end + config_.gap
               : start + dge.interval_base + descriptors * dge.interval_per_descriptor;
  handed_ = ready_;
  after_sequencer_ = true;
  op.pending = 2;
  op.trigger_start = start;
  op.trigger_end = end;
  announce(op, part, cost, wait, start, end);
  context_.host.start_dma(op, dge, end + dge.first_packet);
  part_done(op, start, end);
  return Progress::kIssued;
}

// The operation runs beside the engine, which goes on.
Engine::Progress Engine::trigger_collective(Operation& op, const isa::Part& part, const Cost& cost,
                                            Wait& wait, Fs now) {
  const Fs start = std::max(wait.ready, wait.awake);
  if (start > now) return sleep_until(start, now);
  const Fs end = start + cost.duration;
  handed_ = ready_ = end + config_.gap;
  after_sequencer_ = true;
  op.pending = 2;
  op.trigger_start = start;
  op.trigger_end = end;
  announce(op, part, cost, wait, start, end);
  context_.host.start_collective(op, end);
  part_done(op, start, end);
  return Progress::kIssued;
}

void Engine::part_done(Operation& op, Fs start, Fs end) {
  end_ = std::max(end_, end);
  const bool last = part_ + 1 == op.parts();
  const isa::Sync* sync = op.step.inst->sync;
  if (part_ == 0 && sync != nullptr &&
      std::any_of(sync->posts.begin(), sync->posts.end(),
                  [](const auto& p) { return p.at_issue; })) {
    put_later({start, &op, start, true});
  }
  part_ = last ? 0 : part_ + 1;
  if (!last) return;
  context_.dispatcher.pop(id_);
  const bool beside = op.beside();
  if (!beside) op.pending = 1;
  Fs visible = end + config_.update;
  if (op.number != 0 && !beside) {
    visible = last_visible_ = std::max(visible, last_visible_);
  }
  put_later({visible, &op, end, false});
}

void Engine::announce(const Operation& op, const isa::Part& part, const Cost& cost,
                      const Wait& wait, Fs start, Fs end, const Array::Slot* slot) {
  end_ = std::max(end_, end);
  if (!context_.observers.active()) return;
  PartEvent e{.inst = op.step.inst,
              .sequence = op.step.sequence,
              .core = context_.core,
              .part_index = static_cast<int>(part_) - static_cast<int>(op.added_waits),
              .part = &part,
              .mode = cost.rule->mode,
              .kind = cost.kind,
              .start = start,
              .end = end,
              .busy_from = start,
              .busy_to = end,
              .wait = wait};
  if (slot != nullptr) {
    e.busy_from = slot->busy_from;
    e.busy_to = slot->busy_to;
    e.throttled = slot->throttled;
  }
  context_.observers.send(e);
}

const Operation* Engine::blocked() const { return context_.dispatcher.front(id_); }

std::string Engine::blocked_on() const {
  if (blocked_semaphore_ >= 0) {
    for (const isa::SemaphoreWait& w : context_.dispatcher.front(id_)->step.inst->sync->waits) {
      if (w.semaphore != blocked_semaphore_) continue;
      return describe(w) + " (it is " + std::to_string(context_.semaphores.value(w.semaphore)) +
             ")";
    }
  }
  if (!rendezvous_.empty()) return rendezvous_;
  if (blocked_queue_ != kNoQueue) return "queue " + std::to_string(blocked_queue_);
  return "an earlier instruction";
}

}  // namespace nkisim::models
