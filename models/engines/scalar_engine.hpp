// Models the Scalar Engine: a data path that computes functions from activation tables.
#pragma once

#include "models/engines/compute_engine.hpp"

namespace nkisim::models {

/// One set of activation tables is loaded at a time; a function of another set loads its own first.
class ScalarEngine : public ComputeEngine {
 public:
  [[nodiscard]] const char* kind() const override { return "ScalarEngine"; }
  ScalarEngine(const sc_core::sc_module_name& name, const EngineSetup& setup)
      : ComputeEngine(name, isa::Engine::kScalar, setup),
        load_{.opcode = isa::Opcode::kACT_TABLE_LOAD, .unit = isa::Unit::kScalar} {}

 protected:
  /// Loads the tables just before the part, without waiting for its data.
  void prepare(const Operation& op, const isa::Part& part) override;

 private:
  isa::Part load_;
  Cost cost_;
  std::uint32_t loaded_ = 0;
};

}  // namespace nkisim::models
