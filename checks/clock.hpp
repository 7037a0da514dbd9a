// Defines vector clocks for the race check: for each event, the events that certainly come before
// it.
//
// An agent is an engine, which issues its instructions in order and finishes them in order, or a
// DMA queue, which finishes its transfers in order but works on several at a time. A component of a
// clock counts what one agent has done: instructions of an engine issued, and finished; transfers
// of a queue finished. Clock c of event x says: whenever x happens, for every component a the first
// c[a] events of a have happened.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "isa/base/machine.hpp"

namespace nkisim::checks {

using Clock = std::vector<std::uint32_t>;

/// Event `number` of a component.
struct Point {
  std::uint32_t component = 0;
  std::uint32_t number = 0;  // from 1; 0: the beginning
};

/// Engines of a core, and one lane for instructions of none.
inline constexpr std::size_t kLanes = isa::kEngineCount + 1;

/// Components of the clocks of a program.
class Components {
 public:
  Components(std::size_t cores, std::size_t queues) : cores_(cores), queues_(queues) {}
  [[nodiscard]] std::size_t count() const { return 2 * engines() + queues_; }
  [[nodiscard]] std::uint32_t finished(std::size_t core, isa::Engine engine) const {
    return static_cast<std::uint32_t>(core * kLanes + static_cast<std::size_t>(engine));
  }
  [[nodiscard]] std::uint32_t issued(std::size_t core, isa::Engine engine) const {
    return static_cast<std::uint32_t>(engines()) + finished(core, engine);
  }
  [[nodiscard]] std::uint32_t queue(std::uint32_t queue) const {
    return static_cast<std::uint32_t>(2 * engines()) + queue;
  }

 private:
  [[nodiscard]] std::size_t engines() const { return cores_ * kLanes; }
  std::size_t cores_, queues_;
};

inline void join(Clock& clock, const Clock& other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}
inline void join(Clock& clock, const Point& point) {
  clock[point.component] = std::max(clock[point.component], point.number);
}
[[nodiscard]] inline bool knows(const Clock& clock, const Point& point) {
  return clock[point.component] >= point.number;
}

}  // namespace nkisim::checks
