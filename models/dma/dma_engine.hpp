// Models one DMA engine of a core as a SystemC module; class DmaLane computes its times.
#pragma once

#include <systemc>

#include "models/dma/dma_lane.hpp"

namespace nkisim::models {

/// Passive. DmaLane is its arithmetic; the rings hand it shares and ask it when it is due. It
/// reaches HBM by the port of its rings: a port of its own would cost as much as the engine.
class DmaEngine : public sc_core::sc_module {
 public:
  [[nodiscard]] const char* kind() const override { return "DmaEngine"; }
  DmaEngine(const sc_core::sc_module_name& name, const DmaConfig& config)
      : sc_module(name), lane_(config) {}
  [[nodiscard]] DmaLane& lane() { return lane_; }
  [[nodiscard]] const DmaLane& lane() const { return lane_; }

 private:
  DmaLane lane_;
};

}  // namespace nkisim::models
