// Issues the machine operations of an engine's instructions in order, once their waits are over.
#include "models/engines/engine.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

// Issued instructions whose end lies ahead; more are issued only when some have ended.
constexpr std::size_t kMaxInFlight = 64;

}  // namespace

Engine::Engine(const sc_core::sc_module_name& name, isa::Engine id, const EngineSetup& setup)
    : sc_module(name),
      id_(id),
      setup_(setup),
      config_(setup.config.get().engines.at(static_cast<std::size_t>(id))),
      ready_(config_.start),
      handed_(config_.start),
      wait_{.opcode = isa::Opcode::kEVENT_SEMAPHORE, .unit = isa::unit_of(id)} {}

// A call through a port costs three times as much as one through what it is bound to.
void Engine::end_of_elaboration() {
  core_ = core.operator->();
  semaphores_ = semaphores.operator->();
  dma_ = dma.operator->();
}

void Engine::retire_due(Fs now) {
  due_ = 0;
  while (!later_.empty() && later_.front().time <= now) {
    const Later l = later_.front();
    later_.pop_front();
    if (l.at_issue) {
      core_->post(*l.op, true, l.end);
    } else {
      core_->finish(*l.op, l.end);
    }
  }
  retire_at_ = later_.empty() ? kNever : later_.front().time;
}

void Engine::issue_due(Fs now) {
  due_ = kNever;
  if (!as_before(now)) {
    do {
      wake_at_ = kNever;
      settled_ = false;
    } while (issue_next(now) == Progress::kIssued);
  }
  due_ = std::min({due_, wake_at_, retire_at_});
}

// True if the first instruction still waits for the same thing as at the engine's last look.
bool Engine::as_before(Fs now) const {
  if (settled_) return wake_at_ > now;
  return blocked_queue_ != kNoQueue &&
         core_->completion(blocked_queue_, blocked_number_).visible == kNever;
}

void Engine::put_later(Later later) {
  later_.insert(later, [](const Later& a, const Later& b) { return a.time > b.time; });
  retire_at_ = later_.front().time;
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

Engine::Progress Engine::issue_next(Fs now) {
  blocked_queue_ = kNoQueue;
  blocked_semaphore_ = -1;
  if (later_.size() >= kMaxInFlight) return Progress::kSleep;
  Operation* op = core_->front(id_);
  if (op == nullptr) return Progress::kBlocked;
  return issue_part(*op, now);
}

const isa::Part& Engine::part_of(const Operation& op) const {
  return part_ < op.added_waits ? wait_ : op.expansion().parts[part_ - op.added_waits];
}

const Cost& Engine::cost_of(const Operation& op) {
  Cost& cost = part_ < op.added_waits ? wait_cost_ : op.form->costs[part_ - op.added_waits];
  if (cost.rule == nullptr) cost = price(part_of(op));
  return cost;
}

Engine::Progress Engine::issue_part(Operation& op, Fs now) {
  const isa::Part& part = part_of(op);
  const Cost& cost = cost_of(op);
  const bool added = part_ < op.added_waits;
  prepare(op, op.expansion().parts[added ? 0 : part_ - op.added_waits]);
  const isa::Sync* sync = part_ == 0 ? op.step.inst->sync : nullptr;
  if (sync != nullptr && !sync->waits.empty() && ready_ > now) return sleep_until(ready_, now);
  Wait wait{.ready = ready_};
  if (!find_wait(op, wait)) return Progress::kBlocked;
  if (op.rendezvous != 0 && !added) {
    const Progress met = meet(op, wait, now);
    if (met != Progress::kIssued) return met;
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
  return start(op, part, cost, wait, now);
}

// All cores come to a rendezvous before one of them goes on.
Engine::Progress Engine::meet(Operation& op, Wait& wait, Fs now) {
  const Fs here = std::max(wait.ready, wait.awake);
  if (here > now) return sleep_until(here, now);
  if (!core_->rendezvous(op, now, wait.awake)) {
    rendezvous_ = "the other core";
    return Progress::kBlocked;
  }
  rendezvous_.clear();
  return Progress::kIssued;
}

// Finds the bound of the next part's start. False if something that it needs has not happened yet.
bool Engine::find_wait(const Operation& op, Wait& wait) {
  if (!wait_for_needs(op, wait)) return false;
  const isa::Sync* sync = op.step.inst->sync;
  return part_ != 0 || sync == nullptr || wait_for_semaphores(*sync, wait);
}

bool Engine::only_waits(const Operation& op, const isa::Part& part) {
  const isa::Sync* sync = op.step.inst->sync;
  return part.opcode == isa::Opcode::kEVENT_SEMAPHORE && (sync == nullptr || sync->posts.empty());
}

bool Engine::wait_for_needs(const Operation& op, Wait& wait) {
  for (const Need& need : op.needs) {
    if (need.part != part_) continue;
    const Completion c = core_->completion(need.queue, need.number);
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
    const auto since = semaphores_->satisfied(w);
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

Engine::Progress Engine::start(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait,
                               Fs now) {
  Fs start = std::max({wait.ready, wait.awake, wait.pipe_free});
  if (part_ >= op.added_waits && shares(op, cost)) {
    const Grant grant = probe(op, start);
    if (grant.holder != isa::Engine::kAny) {  // else no port delays it
      wait.port_free = grant.at;
      wait.port_holder = grant.holder;
    }
    start = std::max(start, grant.at);
    if (start > now) return settle_until(op, start, now);
    reserve(op, start + cost.interval);
  }
  const Fs end = start + cost.duration;
  if (cost.kind == PartKind::kPipe) {
    pipe_free_ = start + cost.interval;
    ready_ = start + (after_sequencer_ ? config_.issue_after_sequencer : config_.issue);
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

Engine::Progress Engine::trigger_dma(Operation& op, const isa::Part& part, const Cost& cost,
                                     Wait& wait, Fs now) {
  const DgeConfig& dge = setup_.config.get().dma.dge(op.dge);
  const std::int64_t descriptors = op.expansion().dma.descriptors;
  const bool found = dge.dynamic_trigger > 0 && (part.features & isa::kFeatDynamic) != 0;
  if (wait.visible > 0 && dge.wake_base > 0 && !found) {
    wait.awake =
        std::max(wait.awake, wait.visible + dge.wake_base + descriptors * dge.wake_per_descriptor);
  }
  const Fs start = std::max({wait.ready, wait.awake, wait.pipe_free});
  if (start > now) return settle_until(op, start, now);
  Fs end = start + (found ? dge.dynamic_trigger : dge.trigger.at(static_cast<std::size_t>(id_)));
  if (op.rendezvous != 0) end += cost.duration;  // the cores signal each other that they have come
  if (dge.queue_bytes > 0) {
    const Fs taken = dma_->backlog(op.queue, dge.queue_bytes);
    if (taken > now) return sleep_until(std::max(taken, end), now);
    end = std::max(end, now);
  }
  if (dge.trigger_per_outstanding > 0 && !found) {
    end += dma_->outstanding(op.dge) * dge.trigger_per_outstanding;
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
  core_->skip_rows(op);
  dma_->submit(op, dge, end + dge.first_packet);
  part_done(op, start, end);
  return Progress::kIssued;
}

// The operation runs in parallel with the engine, which goes on.
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
  core_->start_collective(op, end);
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
  core_->pop(id_);
  const bool detached = op.detached();
  if (!detached) op.pending = 1;
  Fs visible = end + config_.update;
  if (op.number != 0 && !detached) {
    visible = last_visible_ = std::max(visible, last_visible_);
  }
  put_later({visible, &op, end, false});
}

PartEvent Engine::event(const Operation& op, const isa::Part& part, const Cost& cost,
                        const Wait& wait, Fs start, Fs end) const {
  return {.inst = op.step.inst,
          .sequence = op.step.sequence,
          .core = setup_.core,
          .part_index = static_cast<int>(part_) - static_cast<int>(op.added_waits),
          .part = &part,
          .mode = cost.rule->mode,
          .kind = cost.kind,
          .start = start,
          .end = end,
          .busy_from = start,
          .busy_to = end,
          .wait = wait};
}

void Engine::send(const PartEvent& event) {
  end_ = std::max(end_, event.end);
  if (setup_.observers.active()) setup_.observers.send(event);
}

std::string Engine::blocked_on(const isa::SemaphoreNames& names) const {
  if (blocked_semaphore_ >= 0) {
    for (const isa::SemaphoreWait& w : core_->front(id_)->step.inst->sync->waits) {
      if (w.semaphore != blocked_semaphore_) continue;
      return describe(w, names) + " (it is " + std::to_string(semaphores_->value(w.semaphore)) +
             ")";
    }
  }
  if (!rendezvous_.empty()) return rendezvous_;
  if (blocked_queue_ != kNoQueue) return "queue " + std::to_string(blocked_queue_);
  return "an earlier instruction";
}

}  // namespace nkisim::models
