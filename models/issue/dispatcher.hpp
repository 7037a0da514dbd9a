// Walks a core's program and gives every engine its instructions, with the operations to wait for.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "isa/machine/eval.hpp"
#include "models/clock.hpp"
#include "models/core/operation.hpp"
#include "models/fifo.hpp"
#include "models/pool.hpp"

namespace nkisim::models {

class Dispatcher {
 public:
  struct Options {
    bool evaluate = true;  // run the effects of instructions, not only their timing
    std::function<void(QueueIndex, const std::string&)> on_queue;
    Fs settle = 0;  // completions older than this need no wait
    const Clock* clock = nullptr;
    std::function<void(isa::Engine)> on_queued;  // an instruction in its queue; may be empty
  };
  Dispatcher(const isa::Program& program, std::reference_wrapper<const Config> config, int core,
             isa::CoreState& state, isa::EvalContext* context, Completions& completions,
             Options options);

  /// The oldest instruction of `engine` not yet popped; null if there is none now: then the walk
  /// is held or has ended.
  [[nodiscard]] Operation* front(isa::Engine engine);
  void pop(isa::Engine engine);
  /// Gives an operation back when nothing refers to it any more. True if engines that found no
  /// work should look again.
  bool recycle(Operation* op);
  /// The operation that held the walk has taken effect.
  void resume() { held_ = false; }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  using Queue = Fifo<Operation*>;
  bool walk();
  void dispatch(const isa::Step& step);
  void dispatch_control(const isa::Step& step);
  void put(Operation* op);
  Operation* make(const isa::Step& step, isa::Engine engine);
  void snapshot(Operation& op);
  void choose_queue(Operation& op);
  void derive_needs(Operation& op);
  void follow(const isa::Ordering& ordering);
  void add_waits(Operation& op);
  void wait_for_walk(Operation& op);
  void note_memory(Operation& op) const;
  [[nodiscard]] Fs horizon() const;
  QueueIndex dma_queue(const Operation& op);
  QueueIndex collective_queue();
  Queue& queue(isa::Engine engine) { return queues_.at(static_cast<std::size_t>(engine)); }

  const isa::Program& program_;
  const Config& config_;
  isa::CoreState& state_;
  isa::EvalContext* context_;
  Completions& completions_;
  Options options_;
  isa::Walker walker_;
  Dependences dependences_;
  WaitPlacer placer_;
  Forms forms_;
  std::array<Queue, isa::kEngineCount> queues_;
  std::array<bool, isa::kEngineCount> used_{};  // engines with instructions in this program
  std::uint32_t ported_ = 0;                    // engines that share a port, a bit each
  std::unordered_map<std::uint32_t, QueueIndex> dma_queues_;
  std::array<std::uint32_t, isa::kEngineCount> next_dma_queue_{};
  Pool<Operation> store_;
  std::vector<Edge> edges_;
  std::unordered_map<std::uint32_t, Need> ordered_;  // by id: its instruction's last operation
  QueueIndex collectives_ = kNoQueue;
  std::uint32_t meetings_ = 0;
  std::uint64_t count_ = 0;
  std::size_t in_flight_ = 0;
  bool starved_ = false;
  bool held_ = false, ended_ = false;
  Need holder_;  // the operation that held the walk last; number 0: none yet
};

}  // namespace nkisim::models
