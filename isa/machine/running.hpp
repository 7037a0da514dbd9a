// Declares Running: the instruction that runs, where it does, and how rules that it breaks are
// reported.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "isa/base/inst.hpp"
#include "isa/machine/conditions.hpp"
#include "isa/machine/memory.hpp"
#include "isa/program/core_state.hpp"

namespace nkisim::isa {

/// The base of EvalContext's parts.
class Running {
 public:
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const Machine& machine() const { return program_.machine(); }
  [[nodiscard]] Memory& memory() { return memory_; }
  [[nodiscard]] CoreState& state() { return state_; }
  /// The level of a rule in this run.
  [[nodiscard]] Level level(Rule rule) const { return rules_.of(rule); }
  /// The running instruction breaks a rule whose level is given: throws it, or warns, once for each
  /// instruction.
  void report(Level level, Rule rule, const std::string& message);

 protected:
  Running(const Program& program, Memory& memory, CoreState& state)
      : program_(program), memory_(memory), state_(state) {}
  ~Running() = default;

  const Program& program_;
  Memory& memory_;
  CoreState& state_;
  RulePolicy rules_;
  WarningSink warn_;  // null: warnings are lost
  const Inst* inst_ = nullptr;
  Engine engine_ = Engine::kVector;  // the instruction's

 private:
  std::vector<std::pair<const Inst*, Rule>> warned_;
};

}  // namespace nkisim::isa
