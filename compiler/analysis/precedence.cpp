#include "compiler/analysis/precedence.hpp"

#include <algorithm>

#include "isa/engine_state.hpp"

namespace nkisim::compiler {

bool is_barrier(const isa::Inst& inst) {
  const isa::OpSpec& op = isa::spec(inst);
  return op.control != isa::OpSpec::Control::kNone || op.rendezvous || op.loads_register ||
         op.on_sequencer || inst.sync != nullptr;
}

void Precedence::add_state(const isa::Inst& inst, std::uint32_t number) {
  if (!isa::uses_state(inst)) return;
  const auto before = static_cast<std::uint32_t>(last_stateful_);
  if (last_stateful_ >= 0 && std::none_of(edges_.begin(), edges_.end(),
                                          [&](const auto& e) { return e.producer == before; })) {
    edges_.push_back({before, false});
  }
  last_stateful_ = number;
}

}  // namespace nkisim::compiler
