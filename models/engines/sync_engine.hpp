// Models the Sync Engine: a sequencer without a data path, for waits and DMA triggers.
#pragma once

#include "models/engines/engine.hpp"

namespace nkisim::models {

class SyncEngine : public Engine {
 public:
  [[nodiscard]] const char* kind() const override { return "SyncEngine"; }
  SyncEngine(const sc_core::sc_module_name& name, const EngineSetup& setup)
      : Engine(name, isa::Engine::kSync, setup) {}
};

}  // namespace nkisim::models
