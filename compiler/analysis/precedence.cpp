// Finds barriers, and dependences by engine state (such as reduce registers) or by the kernel's
// wish.
#include "compiler/analysis/precedence.hpp"

#include <algorithm>

#include "isa/program/engine_state.hpp"

namespace nkisim::compiler {

bool is_barrier(const isa::Inst& inst) {
  const isa::OpSpec& op = isa::spec(inst);
  return op.control != isa::OpSpec::Control::kNone || op.rendezvous || op.loads_register ||
         op.on_sequencer || inst.sync != nullptr;
}

void Precedence::restart() {
  hazards_.restart();
  ids_.clear();
  last_stateful_ = -1;
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

// A follower waits for the other's completion, as if it read its result.
void Precedence::add_ordering(const isa::Inst& inst, std::uint32_t number) {
  const isa::Ordering& ordering = program_.ordering(inst);
  const auto key = [&](std::uint32_t id) { return std::uint64_t{inst.core} << 32U | id; };
  for (const std::uint32_t id : ordering.after) {
    const auto found = ids_.find(key(id));
    if (found == ids_.end()) continue;  // before a barrier, which nothing passes
    const auto known = std::find_if(edges_.begin(), edges_.end(), [&](const Hazards::Edge& e) {
      return e.producer == found->second;
    });
    if (known == edges_.end()) {
      edges_.push_back({found->second, true});
    } else {
      known->reads = true;
    }
  }
  if (ordering.id != 0) ids_[key(ordering.id)] = number;
}

}  // namespace nkisim::compiler
