// One of the DMA engines of a core as a module: the packets of its shares, and the port to HBM.
#pragma once

#include <systemc>

#include "models/dma/dma_lane.hpp"
#include "models/memory/hbm_if.hpp"

namespace nkisim::models {

/// Passive. DmaLane is its arithmetic; the rings hand it shares and ask it when it is due.
class DmaEngine : public sc_core::sc_module {
 public:
  DmaEngine(const sc_core::sc_module_name& name, const DmaConfig& config)
      : sc_module(name), lane_(config) {}
  sc_core::sc_port<hbm_if> hbm{"hbm"};
  [[nodiscard]] DmaLane& lane() { return lane_; }
  [[nodiscard]] const DmaLane& lane() const { return lane_; }

 private:
  void end_of_elaboration() override { lane_.reach(*hbm.operator->()); }
  DmaLane lane_;
};

}  // namespace nkisim::models
