// Defines the base class of all engines of a core. Its sequencer takes instructions in order, waits
// for what they need, and starts their machine operations (parts).
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <systemc>

#include "models/core/core_if.hpp"
#include "models/core/semaphores.hpp"
#include "models/dma/dma_if.hpp"
#include "models/fifo.hpp"
#include "models/issue/cost.hpp"
#include "models/memory/shared_port.hpp"

namespace nkisim::models {

/// Everything that an engine needs apart from its ports.
struct EngineSetup {
  std::reference_wrapper<const Config> config;
  const CostTable& costs;
  const ObserverList& observers;
  int core = 0;
};

/// Passive: its core calls retire() and issue() at the time of next(), or after wake().
class Engine : public sc_core::sc_module {
 public:
  Engine(const sc_core::sc_module_name& name, isa::Engine id, const EngineSetup& setup);
  sc_core::sc_port<core_if> core{"core"};
  sc_core::sc_port<semaphores_if> semaphores{"semaphores"};
  sc_core::sc_port<dma_if> dma{"dma"};

  /// Something that it may wait for has changed: it is due now.
  void wake() { due_ = 0; }
  /// The time when it is due; kNever if it waits for others.
  [[nodiscard]] Fs next() const { return due_; }
  /// Issued instructions whose time has come take effect, or post their semaphores.
  void retire(Fs now) {
    if (retire_at_ <= now) retire_due(now);
  }
  /// Starts what can start; after retire().
  void issue(Fs now) {
    if (due_ <= now) issue_due(now);
  }

  [[nodiscard]] isa::Engine id() const { return id_; }
  /// The queue or semaphore the first instruction waits for, if it does.
  [[nodiscard]] QueueIndex blocked_queue() const { return blocked_queue_; }
  [[nodiscard]] bool waits_for(QueueIndex queue, std::uint64_t number) const {
    return blocked_queue_ == queue && blocked_number_ == number;
  }
  [[nodiscard]] int blocked_semaphore() const { return blocked_semaphore_; }
  /// The instruction at the head, if it cannot go on; for deadlock messages.
  [[nodiscard]] const Operation* blocked() const { return core_->front(id_); }
  [[nodiscard]] std::string blocked_on(const isa::SemaphoreNames& names) const;
  /// End of the last part.
  [[nodiscard]] Fs end() const { return end_; }

 protected:
  enum class Progress : std::uint8_t { kIssued, kBlocked, kSleep };

  void end_of_elaboration() override;
  // ---- what engines do in ways of their own ----
  /// Before a part of an instruction that was not added is looked at.
  virtual void prepare(const Operation& /*op*/, const isa::Part& /*part*/) {}
  /// True if the part may start only at its own time, because others can delay it until then.
  [[nodiscard]] virtual bool shares(const Operation& /*op*/, const Cost& /*cost*/) const {
    return false;
  }
  /// The time when shared memories let a part start that could start at `at`, and their use.
  [[nodiscard]] virtual Grant probe(const Operation& /*op*/, Fs at) const { return {.at = at}; }
  virtual void reserve(const Operation& /*op*/, Fs /*until*/) {}
  /// Starts a part whose needs are met: on the data path or the sequencer.
  virtual Progress start(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait,
                         Fs now);
  /// The cost of a part on this engine.
  [[nodiscard]] virtual Cost price(const isa::Part& part) const { return setup_.costs.cost(part); }

  void part_done(Operation& op, Fs start, Fs end);
  void announce(const Operation& op, const isa::Part& part, const Cost& cost, const Wait& wait,
                Fs start, Fs end) {
    send(event(op, part, cost, wait, start, end));
  }
  [[nodiscard]] PartEvent event(const Operation& op, const isa::Part& part, const Cost& cost,
                                const Wait& wait, Fs start, Fs end) const;
  void send(const PartEvent& event);

  isa::Engine id_;
  EngineSetup setup_;
  const EngineConfig& config_;
  Fs ready_ = 0;      // sequencer free
  Fs handed_ = 0;     // ... and would have been, had the data path taken everything at once
  Fs pipe_free_ = 0;  // data path free
  bool after_sequencer_ = false;

 private:
  // Something that happens to an issued instruction at a known time.
  struct Later {
    Fs time;
    Operation* op;
    Fs end;
    bool at_issue;
  };
  void retire_due(Fs now);
  void issue_due(Fs now);
  void put_later(Later later);
  Progress issue_next(Fs now);
  Progress issue_part(Operation& op, Fs now);
  [[nodiscard]] const Cost& cost_of(const Operation& op);
  [[nodiscard]] const isa::Part& part_of(const Operation& op) const;
  bool find_wait(const Operation& op, Wait& wait);
  [[nodiscard]] static bool only_waits(const Operation& op, const isa::Part& part);
  bool wait_for_needs(const Operation& op, Wait& wait);
  bool wait_for_semaphores(const isa::Sync& sync, Wait& wait);
  Progress sleep_until(Fs time, Fs now);
  Progress settle_until(const Operation& op, Fs time, Fs now);
  [[nodiscard]] bool as_before(Fs now) const;
  Progress meet(Operation& op, Wait& wait, Fs now);
  Progress trigger_dma(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait, Fs now);
  Progress trigger_collective(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait,
                              Fs now);

  core_if* core_ = nullptr;  // what the ports are bound to
  semaphores_if* semaphores_ = nullptr;
  dma_if* dma_ = nullptr;
  isa::Part wait_;  // one added before an instruction
  Cost wait_cost_;
  Fifo<Later> later_;      // by time
  Fs retire_at_ = kNever;  // of the first of them
  std::size_t part_ = 0;   // next part of the head
  Fs wake_at_ = 0;         // when the head may start, as far as it is known
  Fs due_ = 0;             // at a wake at once; else the earlier of the two
  bool settled_ = false;   // nothing others do lets the head start before wake_at_
  Fs end_ = 0;
  Fs last_visible_ = 0;  // completions become visible in order
  QueueIndex blocked_queue_ = kNoQueue;
  std::uint64_t blocked_number_ = 0;
  int blocked_semaphore_ = -1;
  std::string rendezvous_;
};

}  // namespace nkisim::models
