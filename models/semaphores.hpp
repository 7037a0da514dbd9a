// The hardware semaphores of a core, for traces that carry their own waits and posts.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "isa/base/inst.hpp"
#include "models/observer.hpp"

namespace nkisim::models {

/// Counters with the recent history of their values. Times must not decrease.
class Semaphores {
 public:
  struct Change {
    Fs time = 0;
    std::int64_t value = 0;
    QueueIndex queue = kNoQueue;  // who changed it
    std::uint64_t sequence = 0;
    Fs end = 0;  // end of the operation that changed it
  };

  [[nodiscard]] std::int64_t value(int semaphore) const;
  /// The change since which the condition has held without interruption; empty if it does not.
  [[nodiscard]] std::optional<Change> satisfied(const isa::SemaphoreWait& wait) const;
  void update(const isa::SemaphorePost& post, const Change& by);

 private:
  std::vector<std::deque<Change>> histories_;
};

/// "S[5]>=4" — how messages and profiles write a condition.
[[nodiscard]] std::string describe(const isa::SemaphoreWait& wait);

}  // namespace nkisim::models
