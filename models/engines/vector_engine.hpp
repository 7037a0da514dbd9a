// Models the Vector Engine: it streams elements, and shares memory ports with other engines.
#pragma once

#include "models/engines/compute_engine.hpp"

namespace nkisim::models {

/// Its performance modes are rows of the config's cost table, its shared ports those of `ports`.
class VectorEngine : public ComputeEngine {
 public:
  [[nodiscard]] const char* kind() const override { return "VectorEngine"; }
  VectorEngine(const sc_core::sc_module_name& name, const EngineSetup& setup)
      : ComputeEngine(name, isa::Engine::kVector, setup) {}
};

}  // namespace nkisim::models
