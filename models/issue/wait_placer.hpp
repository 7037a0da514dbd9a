// Chooses the operations that an instruction waits for. Of those that it depends on, it leaves out
// those that its engine knows to have finished from earlier waits.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "models/core/completions.hpp"
#include "models/fifo.hpp"
#include "models/issue/dependences.hpp"

namespace nkisim::models {

/// A producer that an operation waits for, before the part of that index.
struct Need {
  QueueIndex queue = 0;
  std::uint16_t part = 0;
  std::uint64_t number = 0;
};

/// Sees the operations of one core in program order. Who waits for an engine's instruction knows
/// whatever that engine had waited for by then.
class WaitPlacer {
 public:
  /// An operation that waits: `number` on `queue`, issued by `engine`. `detached`: not ordered by
  /// the engine's data path.
  struct Waiter {
    isa::Engine engine = isa::Engine::kSync;
    QueueIndex queue = 0;
    std::uint64_t number = 0;
    bool detached = false;
  };

  explicit WaitPlacer(const Completions& completions) : completions_(completions) { next_.fill(1); }
  /// The edges of the operation that place() would leave out, whatever the others are.
  [[nodiscard]] NeedsNoEdge left_out(const Waiter& waiter) const;
  /// Adds to `needs` what the operation must wait for; each only once.
  void place(const Waiter& waiter, const std::vector<Edge>& edges, std::vector<Need>& needs);
  /// Adds instruction `number` of an engine, if `engine` does not know that it has finished.
  void wait_for(isa::Engine engine, QueueIndex producer, std::uint64_t number,
                std::vector<Need>& needs);

 private:
  // Per engine, its latest instruction known to have finished.
  using Clock = std::array<std::uint64_t, isa::kEngineCount>;
  // The knowledge of an engine when it issued its instruction `number`.
  struct Moment {
    std::uint64_t number;
    Clock known;
  };
  // The engines that waited for a DMA: a bit per engine, and the first of them with its
  // instruction.
  struct Waiters {
    std::uint64_t number = 0;
    std::uint8_t engine = 0, all = 0;
  };
  // The DMAs of a queue from number `first` on.
  struct Transfers {
    std::uint64_t first = 0;
    std::deque<Waiters> waiters;
  };
  [[nodiscard]] Waiters* waiters_of(const Edge& dma);
  [[nodiscard]] const Clock* known_at(QueueIndex engine, std::uint64_t number) const;
  [[nodiscard]] bool implied(const Edge& edge, const std::vector<Edge>& engines) const;
  bool learns(const Waiter& waiter, const Edge& dma);
  void learn(std::size_t engine, const Need& need);

  const Completions& completions_;
  std::vector<Transfers> transfers_;  // by queue
  std::array<Clock, isa::kEngineCount> clocks_{};
  std::array<std::uint64_t, isa::kEngineCount> next_{};  // numbers of the next instructions
  std::array<Fifo<Moment>, isa::kEngineCount> moments_;
  std::vector<Edge> engines_;
};

}  // namespace nkisim::models
