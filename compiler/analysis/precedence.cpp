#include "compiler/analysis/precedence.hpp"

#include <algorithm>

namespace nkisim::compiler {
namespace {

// Uses what its engine remembers besides memory.
bool stateful(const isa::Inst& inst) {
  using State = isa::OpSpec::State;
  const isa::OpSpec& op = isa::spec(inst);
  if (op.state != State::kIfReducing) return op.state == State::kAlways;
  const auto named = [&](std::string_view param) {
    const int i = isa::param_index(op, param);
    return i >= 0 && inst.has(i);
  };
  return named("reduce_cmd") || named("reduce_res");
}

}  // namespace

bool is_barrier(const isa::Inst& inst) {
  const isa::OpSpec& op = isa::spec(inst);
  return op.control != isa::OpSpec::Control::kNone || op.rendezvous || op.loads_register ||
         op.on_sequencer || inst.sync != nullptr;
}

void Precedence::add_state(const isa::Inst& inst, std::uint32_t number) {
  if (!stateful(inst)) return;
  const auto before = static_cast<std::uint32_t>(last_stateful_);
  if (last_stateful_ >= 0 && std::none_of(edges_.begin(), edges_.end(),
                                          [&](const auto& e) { return e.producer == before; })) {
    edges_.push_back({before, false});
  }
  last_stateful_ = number;
}

}  // namespace nkisim::compiler
