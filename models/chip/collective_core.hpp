// Models a CC-core, which drives the collective operations of one rank or of one of its streams.
#pragma once

#include <functional>

#include "models/chip/link_if.hpp"
#include "models/dma/dma_if.hpp"
#include "models/memory/hbm_if.hpp"

namespace nkisim::models {

/// Passive. The links say when an operation moves data (link_if); the CC-core of each of its ranks
/// then takes what that needs on its chip.
class CollectiveCore : public sc_core::sc_module {
 public:
  [[nodiscard]] const char* kind() const override { return "CollectiveCore"; }
  CollectiveCore(const sc_core::sc_module_name& name,
                 std::reference_wrapper<const CollectiveConfig> config)
      : sc_module(name), config_(config) {}
  sc_core::sc_port<hbm_if> hbm{"hbm"};                                     // of the rank's stack
  sc_core::sc_port<dma_if, 0, sc_core::SC_ZERO_OR_MORE_BOUND> dma{"dma"};  // of the rank's cores

  /// Data of an operation begin to move: they take a part of the stack from the rank's own
  /// transfers, and of the DMA engines unless the operation has rings of its own.
  /// `host`: null, or the memory of a host that stands for the stack, with the bytes of its pieces.
  void move(const Collectives::Moving& moving, Fs now, HbmRequests* host = nullptr,
            std::int64_t piece_bytes = 0) {
    if (host == nullptr) {
      hbm->settle(now);
      hbm->reserve(moving.start, moving.span, moving.hbm_bytes);
    } else {
      host->carry({.core = {.rank = moving.rank},
                   .stack_bytes = static_cast<std::int64_t>(moving.hbm_bytes),
                   .span = moving.span},
                  moving.start, piece_bytes);
    }
    ++moved_;
    if (moving.engine_bytes > static_cast<double>(config_.ring_bytes)) return;
    for (int core = 0; core < dma.size(); ++core)
      dma[core]->occupy(moving.engine_bytes / dma.size());
  }
  /// Parts of operations whose data have begun to move.
  [[nodiscard]] std::uint64_t moved() const { return moved_; }

 private:
  const CollectiveConfig& config_;
  std::uint64_t moved_ = 0;
};

}  // namespace nkisim::models
