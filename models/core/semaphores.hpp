// Models the hardware semaphores of a core, for programs that contain their own waits and
// increments.
#pragma once

#include <boost/circular_buffer.hpp>
#include <optional>
#include <string>
#include <systemc>
#include <vector>

#include "isa/base/inst.hpp"
#include "isa/program/disasm.hpp"
#include "models/observer.hpp"

namespace nkisim::models {

struct SemaphoreChange {
  Fs time = 0;
  std::int64_t value = 0;
  QueueIndex queue = kNoQueue;  // who changed it
  std::uint64_t sequence = 0;
  Fs end = 0;  // end of the operation that changed it
};

/// The engines' view of the semaphores of their core.
class semaphores_if : public virtual sc_core::sc_interface {
 public:
  [[nodiscard]] virtual std::int64_t value(int semaphore) const = 0;
  /// The change since which the condition has held without interruption; empty if it does not.
  [[nodiscard]] virtual std::optional<SemaphoreChange> satisfied(
      const isa::SemaphoreWait& wait) const = 0;
};

/// Counters with the recent history of their values. Times must not decrease.
class SemaphoreCounters : public semaphores_if {
 public:
  [[nodiscard]] std::int64_t value(int semaphore) const override;
  [[nodiscard]] std::optional<SemaphoreChange> satisfied(
      const isa::SemaphoreWait& wait) const override;
  void update(const isa::SemaphorePost& post, const SemaphoreChange& by);

 private:
  using History = boost::circular_buffer<SemaphoreChange>;  // overwrites the oldest
  std::vector<History> histories_;
};

/// A channel. SemaphoreCounters is its arithmetic.
class Semaphores : public sc_core::sc_module, public SemaphoreCounters {
 public:
  [[nodiscard]] const char* kind() const override { return "Semaphores"; }
  explicit Semaphores(const sc_core::sc_module_name& name) : sc_module(name) {}
};

/// "S[5]>=4" — how messages and profiles write a condition.
[[nodiscard]] std::string describe(const isa::SemaphoreWait& wait,
                                   const isa::SemaphoreNames& names);

}  // namespace nkisim::models
