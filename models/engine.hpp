// One engine: its sequencer takes instructions in order, waits for what they need, and lets their
// parts run on the data path.
#pragma once

#include <optional>
#include <string>

#include "models/array.hpp"
#include "models/dispatcher.hpp"
#include "models/dma/dma_if.hpp"
#include "models/fifo.hpp"
#include "models/semaphores.hpp"
#include "models/sim_session.hpp"

namespace nkisim::models {

class Engine;

/// What an engine asks of the core it belongs to.
class EngineHost {
 public:
  virtual ~EngineHost() = default;
  /// The instruction took effect at `end`; its completion is visible now.
  virtual void finish(Operation& op, Fs end) = 0;
  /// Posts of an instruction that update semaphores when it issues, or when it completes.
  virtual void post(const Operation& op, bool at_issue, Fs end) = 0;
  virtual void start_dma(Operation& op, const DgeConfig& dge, Fs first_packet) = 0;
  [[nodiscard]] virtual int outstanding(isa::DgeMode mode) const = 0;
  /// When no DMA engine has more than `bytes` of a queue left to begin: now, or a time at which to
  /// ask again.
  [[nodiscard]] virtual Fs room(QueueIndex queue, std::int64_t bytes) const = 0;
  /// True if all cores have reached this rendezvous; `since` is when the last did. Otherwise the
  /// engine is woken when they have.
  virtual bool rendezvous(Operation& op, Fs now, Fs& since) = 0;
  /// The instruction, which ends at `triggered`, starts a collective.
  virtual void start_collective(Operation& op, Fs triggered) = 0;
};

/// State shared by the engines of a core.
struct EngineContext {
  const Config& config;
  const CostTable& costs;
  const isa::Program& program;
  SimSession& session;
  Dispatcher& dispatcher;
  Completions& completions;
  Semaphores& semaphores;
  Ports& ports;
  const ObserverList& observers;
  EngineHost& host;
  int core = 0;
};

class Engine : public sc_core::sc_module {
 public:
  Engine(sc_core::sc_module_name name, isa::Engine id, EngineContext context);

  /// Looks again: something it may wait for has changed.
  void wake() { wake_.notify(); }
  /// The queue or semaphore the first instruction waits for, if it does.
  [[nodiscard]] QueueIndex blocked_queue() const { return blocked_queue_; }
  [[nodiscard]] bool waits_for(QueueIndex queue, std::uint64_t number) const {
    return blocked_queue_ == queue && blocked_number_ == number;
  }
  [[nodiscard]] int blocked_semaphore() const { return blocked_semaphore_; }
  /// The instruction at the head, if it cannot go on; for deadlock messages.
  [[nodiscard]] const Operation* blocked() const;
  [[nodiscard]] std::string blocked_on() const;
  [[nodiscard]] bool idle() const { return later_.empty(); }
  /// End of the last part.
  [[nodiscard]] Fs end() const { return end_; }

 private:
  // Something that happens to an issued instruction at a known time.
  struct Later {
    Fs time;
    Operation* op;
    Fs end;
    bool at_issue;
  };
  enum class Progress : std::uint8_t { kIssued, kBlocked, kSleep };

  void step();
  void schedule(Fs now);
  void retire(Fs now);
  void put_later(Later later);
  Progress issue(Fs now);
  Progress issue_part(Operation& op, Fs now);
  [[nodiscard]] const Cost& cost_of(const Operation& op);
  [[nodiscard]] const isa::Part& part_of(const Operation& op) const;
  bool find_wait(const Operation& op, Wait& wait);
  [[nodiscard]] bool only_waits(const Operation& op, const isa::Part& part) const;
  bool wait_for_needs(const Operation& op, Wait& wait);
  bool wait_for_semaphores(const isa::Sync& sync, Wait& wait);
  Progress sleep_until(Fs time, Fs now);
  Progress settle_until(const Operation& op, Fs time, Fs now);
  [[nodiscard]] bool as_before(Fs now) const;
  void load_table(const Operation& op, std::uint32_t table);
  Progress run_part(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait, Fs now);
  Progress trigger_dma(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait, Fs now);
  Progress trigger_collective(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait,
                              Fs now);
  Progress run_array(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait);
  void part_done(Operation& op, Fs start, Fs end);
  void announce(const Operation& op, const isa::Part& part, const Cost& cost, const Wait& wait,
                Fs start, Fs end, const Array::Slot* slot = nullptr);
  [[nodiscard]] bool at_own_time(const Operation& op, PartKind kind) const;

  isa::Engine id_;
  EngineContext context_;
  const EngineConfig& config_;
  CostCache costs_;  // of what belongs to no form
  isa::Part wait_;   // one added before an instruction
  Cost wait_cost_;
  Array array_;
  sc_core::sc_event wake_;
  Fifo<Later> later_;     // by time
  std::size_t part_ = 0;  // next part of the head
  Fs ready_ = 0;          // sequencer free
  Fs handed_ = 0;         // ... and would have been, had the array taken everything at once
  Fs pipe_free_ = 0;      // data path free
  Fs wake_at_ = kNever;
  bool settled_ = false;  // nothing others do lets the head start before wake_at_
  Fs end_ = 0;
  Fs last_visible_ = 0;      // completions become visible in order
  std::uint32_t table_ = 0;  // activation tables loaded
  bool after_sequencer_ = false;
  QueueIndex blocked_queue_ = kNoQueue;
  std::uint64_t blocked_number_ = 0;
  int blocked_semaphore_ = -1;
  std::string rendezvous_;
};

}  // namespace nkisim::models
