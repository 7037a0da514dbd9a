// Models the Tensor Engine: a sequencer that gives the PE array weights and moving data.
#pragma once

#include "models/engines/array.hpp"
#include "models/engines/compute_engine.hpp"

namespace nkisim::models {

/// Weight loads hide behind the product before them, and the power limit slows streams: Array.
class TensorEngine : public ComputeEngine {
 public:
  [[nodiscard]] const char* kind() const override { return "TensorEngine"; }
  TensorEngine(const sc_core::sc_module_name& name, const EngineSetup& setup)
      : ComputeEngine(name, isa::Engine::kTensor, setup), array_(setup.config) {}

 protected:
  Progress start(Operation& op, const isa::Part& part, const Cost& cost, Wait& wait,
                 Fs now) override;

 private:
  Array array_;
};

}  // namespace nkisim::models
