// Which instructions use what their engine remembers besides memory.
#pragma once

#include "isa/op_spec.hpp"

namespace nkisim::isa {

/// Reduce registers, random generators (OpSpec::State).
[[nodiscard]] inline bool uses_state(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.state != OpSpec::State::kIfReducing) return op.state == OpSpec::State::kAlways;
  const auto named = [&](std::string_view param) {
    const int i = param_index(op, param);
    return i >= 0 && inst.has(i);
  };
  return named("reduce_cmd") || named("reduce_res");
}

/// What an instruction does with its engine's reduce registers (nki.isa.reduce_cmd). Without the
/// argument it may begin anew.
enum class Reducing : std::uint8_t { kNot, kBegins, kGoesOn };
[[nodiscard]] inline Reducing reducing(const Inst& inst) {
  constexpr std::int64_t kIdle = 0, kReduce = 2;
  const int command = param_index(spec(inst), "reduce_cmd");
  if (command < 0) return Reducing::kNot;
  if (!inst.has(command)) return Reducing::kBegins;
  if (inst.integer(command) == kIdle) return Reducing::kNot;
  return inst.integer(command) == kReduce ? Reducing::kGoesOn : Reducing::kBegins;
}

}  // namespace nkisim::isa
