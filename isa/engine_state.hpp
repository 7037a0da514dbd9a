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

}  // namespace nkisim::isa
