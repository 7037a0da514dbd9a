// Declares the SystemC interface through which the engines of a core reach the core.
#pragma once

#include <systemc>

#include "models/core/completions.hpp"
#include "models/core/operation.hpp"

namespace nkisim::models {

/// An engine's view of its core: its instruction queue, completions of other queues, and the
/// effects of its instructions.
class core_if : public virtual sc_core::sc_interface {
 public:
  /// The oldest instruction of the engine's queue; null if there is none now. The core wakes the
  /// engine when that may have changed.
  [[nodiscard]] virtual Operation* front(isa::Engine engine) = 0;
  virtual void pop(isa::Engine engine) = 0;
  /// The completion of operation `number` of a queue. The core wakes the engine that waits for it.
  [[nodiscard]] virtual Completion completion(QueueIndex queue, std::uint64_t number) const = 0;
  /// The instruction took effect at `end`; its completion is visible now.
  virtual void finish(Operation& op, Fs end) = 0;
  /// Posts of an instruction that update semaphores when it issues, or when it completes.
  virtual void post(const Operation& op, bool at_issue, Fs end) = 0;
  /// True if all cores have reached this rendezvous; `since` is when the last did. Otherwise the
  /// engine is woken when they have.
  virtual bool rendezvous(Operation& op, Fs now, Fs& since) = 0;
  /// A DMA is triggered now: what its indices skip is known (Operation::moved).
  virtual void skip_rows(Operation& op) { (void)op; }
  /// The instruction, which ends at `triggered`, starts a collective.
  virtual void start_collective(Operation& op, Fs triggered) = 0;
};

}  // namespace nkisim::models
