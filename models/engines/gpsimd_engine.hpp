// Models the GpSimd Engine: eight programmable cores that run one instruction together.
#pragma once

#include "models/engines/compute_engine.hpp"

namespace nkisim::models {

/// Its cores run one instruction together (assumed: no source says how they split it). It also
/// writes the descriptors of software DMAs, which the config's `dma.software` prices.
class GpSimdEngine : public ComputeEngine {
 public:
  [[nodiscard]] const char* kind() const override { return "GpSimdEngine"; }
  GpSimdEngine(const sc_core::sc_module_name& name, const EngineSetup& setup)
      : ComputeEngine(name, isa::Engine::kGpSimd, setup) {}
};

}  // namespace nkisim::models
