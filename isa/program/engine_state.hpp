// Finds instructions that use state of their engine apart from memory: reduce registers and random
// number generators.
#pragma once

#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

/// reduce_cmd idle, the first of nki.isa.reduce_cmd: as if it were absent.
constexpr std::int64_t kReduceIdle = 0;

/// Reduce registers, random generators (OpSpec::State).
[[nodiscard]] inline bool uses_state(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.state != OpSpec::State::kIfReducing) return op.state == OpSpec::State::kAlways;
  const int command = param_index(op, "reduce_cmd"), result = param_index(op, "reduce_res");
  return (command >= 0 && inst.has(command) && inst.integer(command) != kReduceIdle) ||
         (result >= 0 && inst.has(result));
}

/// The use that an instruction makes of its engine's reduce registers (nki.isa.reduce_cmd). Without
/// the argument it may begin anew.
enum class Reducing : std::uint8_t { kNot, kBegins, kGoesOn };
[[nodiscard]] inline Reducing reducing(const Inst& inst) {
  constexpr std::int64_t kReduce = 2;
  const int command = param_index(spec(inst), "reduce_cmd");
  if (command < 0) return Reducing::kNot;
  if (!inst.has(command)) return uses_state(inst) ? Reducing::kBegins : Reducing::kNot;
  if (inst.integer(command) == kReduceIdle) return Reducing::kNot;
  return inst.integer(command) == kReduce ? Reducing::kGoesOn : Reducing::kBegins;
}

}  // namespace nkisim::isa
