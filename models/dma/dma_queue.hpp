// Models one DMA queue of a core: it keeps its transfers and semaphore writes in order.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <systemc>
#include <vector>

#include "isa/program/program.hpp"
#include "models/config.hpp"

namespace nkisim::models {

/// Passive. Where packets of several queues meet is a matter of the engines (DmaLane).
class DmaQueue : public sc_core::sc_module {
 public:
  [[nodiscard]] const char* kind() const override { return "DmaQueue"; }
  DmaQueue(const sc_core::sc_module_name& name, std::reference_wrapper<const DmaConfig> config)
      : sc_module(name), config_(config) {}
  /// A transfer whose first packet could go at `ready`; when it may, behind the one before.
  Fs begin(Fs ready, const DgeConfig& dge, std::int64_t descriptors) {
    ready = std::max(ready, next_first_);
    next_first_ = ready + dge.queue_interval;
    descriptors_ += descriptors;
    ++outstanding_;
    return ready;
  }
  /// All engines have finished a transfer.
  void end() { --outstanding_; }
  /// The arrival of an engine's semaphore write that starts at `start`, behind the one before.
  Fs arrive(Fs start) {
    last_update_ =
        std::max(start + config_.semaphore_latency, last_update_ + config_.semaphore_serial);
    return last_update_;
  }
  /// Transfers whose engines have not finished.
  [[nodiscard]] int outstanding() const { return outstanding_; }
  /// The descriptors of all its transfers so far.
  [[nodiscard]] std::int64_t descriptors() const { return descriptors_; }

 private:
  const DmaConfig& config_;
  Fs next_first_ = 0;   // earliest first packet of the next transfer
  Fs last_update_ = 0;  // the last semaphore write arrives
  int outstanding_ = 0;
  std::int64_t descriptors_ = 0;
};

/// The name of one of the `count` queues over which an engine spreads its transfers of a mode.
[[nodiscard]] std::string dma_queue_name(isa::DgeMode mode, isa::Engine engine,
                                         std::uint32_t number, int count);
/// The queues that a core's transfers can take, each once; in the order of their first
/// instructions.
[[nodiscard]] std::vector<std::string> dma_queue_names(const isa::Program& program,
                                                       const Config& config, int core);

}  // namespace nkisim::models
