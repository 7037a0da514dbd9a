// Models one HBM stack of a chip as a SystemC module.
#pragma once

#include "models/memory/hbm.hpp"

namespace nkisim::models {

/// A channel: DMA rings and CC-cores bind their ports to it. Hbm is its arithmetic.
class HbmStack : public sc_core::sc_module, public Hbm {
 public:
  [[nodiscard]] const char* kind() const override { return "HbmStack"; }
  HbmStack(const sc_core::sc_module_name& name, const HbmConfig& config, double demand, int engines,
           const TieRule& tie)
      : sc_module(name), Hbm(config, demand, engines, tie) {}
};

}  // namespace nkisim::models
