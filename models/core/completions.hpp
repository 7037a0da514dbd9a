// Keeps when the operations of each engine or DMA queue finish, for the instructions that wait.
#pragma once

#include <vector>

#include "models/fifo.hpp"
#include "models/observer.hpp"
#include "models/time.hpp"

namespace nkisim::models {

/// The finishing of operation `number` (from 1) of one queue.
struct Completion {
  Fs end = 0;           // result written
  Fs visible = kNever;  // semaphore update arrived; kNever while running
  std::uint64_t sequence = 0;
};

/// Per queue, numbered operations and their completions. Operations of an engine finish in order;
/// those of a DMA queue may not.
class Completions {
 public:
  explicit Completions(std::size_t queues) : queues_(queues) {}
  QueueIndex add_queue() {
    queues_.emplace_back();
    return static_cast<QueueIndex>(queues_.size() - 1);
  }
  [[nodiscard]] std::size_t size() const { return queues_.size(); }
  /// Registers the next operation of a queue and returns its number. Forgets the oldest that
  /// became visible before `horizon`.
  std::uint64_t begin(QueueIndex queue, std::uint64_t sequence, Fs horizon);
  void finish(QueueIndex queue, std::uint64_t number, Fs end, Fs visible);
  /// Completion of an operation; forgotten ones read as finished at time 0.
  [[nodiscard]] Completion get(QueueIndex queue, std::uint64_t number) const {
    const Queue& q = queues_[queue];
    if (number < q.first) return {.end = 0, .visible = 0};
    return q.items[static_cast<std::size_t>(number - q.first)];
  }
  [[nodiscard]] bool forgotten(QueueIndex queue, std::uint64_t number) const {
    return number < queues_[queue].first;
  }
  [[nodiscard]] bool finished_before(QueueIndex queue, std::uint64_t number, Fs time) const {
    const Queue& q = queues_[queue];
    return number < q.first || q.items[static_cast<std::size_t>(number - q.first)].visible < time;
  }

 private:
  struct Queue {
    std::uint64_t first = 1;  // number of items.front()
    Fifo<Completion> items;
  };
  std::vector<Queue> queues_;
};

}  // namespace nkisim::models
