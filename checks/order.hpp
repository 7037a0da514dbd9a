// Finds which instructions certainly happen before which, in programs that set semaphores
// themselves.
#pragma once

#include <array>
#include <functional>
#include <string>

#include "checks/semaphores.hpp"

namespace nkisim::checks {

/// An engine that never gets past an instruction when everything else goes as far as it can.
struct DeadlockedEngine {
  const isa::Inst* inst = nullptr;
  isa::SemaphoreWait wait;  // the first that is not met
  bool meeting = false;     // it waits for the other core instead
  std::int64_t value = 0;   // of the semaphore at the end
  bool posted = false;      // whether anything in the program posts to it
};

/// Executes the stream against its semaphores, without time, and works out what is certain at the
/// start of every step.
class Order {
 public:
  /// `goes_on` is called now and then, and may throw.
  Order(const isa::Program& program, const Stream& stream, std::function<void()> goes_on);

  [[nodiscard]] const Clocks& clocks() const { return clocks_; }
  /// Steps in an order that the semaphores allow: program order where that is one.
  [[nodiscard]] const std::vector<std::uint32_t>& order() const { return order_; }
  [[nodiscard]] const std::vector<DeadlockedEngine>& stuck() const { return stuck_; }
  /// The semaphores that say that a step has ended, by posts of it or of later ones ahead of step
  /// `before`, with the values they then have at least, if only its agent raises them.
  [[nodiscard]] std::vector<isa::SemaphoreWait> proofs_of(std::uint32_t step,
                                                          std::uint32_t before) const;

 private:
  struct Lane {  // an engine of a core
    std::vector<std::uint32_t> steps;
    std::size_t next = 0;
  };
  void execute();
  bool advance(std::size_t lane);
  bool runnable(std::uint32_t step) const;
  void run(std::uint32_t step);
  void meet();
  void post(std::uint32_t step);
  void post_transfer(std::uint32_t step, std::uint16_t id, std::int64_t amount);
  void apply(std::uint32_t step, const isa::SemaphorePost& post, std::uint32_t component,
             std::uint32_t number);
  bool improve();
  bool begin(std::uint32_t step, Clock& known) const;
  bool settle(std::uint32_t step);
  bool settle_meeting(std::size_t at);
  void note_stuck();
  Semaphore& semaphore(std::uint8_t core, std::uint16_t id);
  [[nodiscard]] const Semaphore& semaphore(std::uint8_t core, std::uint16_t id) const;
  [[nodiscard]] std::size_t lane_of(const isa::Inst& inst) const {
    return static_cast<std::size_t>(inst.core) * kLanes + static_cast<std::size_t>(inst.engine);
  }

  const isa::Program& program_;
  const Stream& stream_;
  std::function<void()> goes_on_;
  Clocks clocks_;
  std::vector<Semaphore> semaphores_;
  std::vector<std::uint32_t> ids_;  // by core and number: in semaphores_, or kNone
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> previous_;  // step before it on its engine
  std::vector<bool> done_;
  std::vector<std::uint32_t> order_;
  std::vector<DeadlockedEngine> stuck_;
  Clock known_;  // of the step being looked at
};

}  // namespace nkisim::checks
