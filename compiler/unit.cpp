// Finds facts about a program once for all compiler passes, such as the uses of its tensors.
#include "compiler/unit.hpp"

namespace nkisim::compiler {

const isa::Uses& Unit::uses() {
  const std::uint64_t edits = program.operand_edits();
  return cached_uses(edits, [&] {
    return isa::Uses(
        cached_operands(edits, [this] { return std::make_shared<isa::Operands>(program); }));
  });
}

const Values& Unit::values() {
  return cached_values(program.edits(), [this] { return Values::of(program, final_addresses()); });
}

void Unit::reorder(std::span<const std::uint32_t> order) {
  const bool known = cached_operands.holds(program.operand_edits());
  program.reorder(order);
  if (!known) return;
  cached_uses.forget();
  cached_operands.adapt(program.operand_edits(), [&](auto& operands) { operands->reorder(order); });
}

void Unit::forget_untrue() {
  cached_values.forget_unless(program.edits());
  cached_uses.forget_unless(program.operand_edits());
  cached_operands.forget_unless(program.operand_edits());
}

const std::vector<bool>& Unit::final_addresses() {
  return cached_final(program.operand_edits(), [this] {
    std::vector<bool> out;
    out.reserve(program.tensors().size());
    for (const isa::Tensor& t : program.tensors()) {
      const bool open = program.virtual_addresses() && !t.fixed;
      out.push_back(t.space != isa::Space::kHbm && !open);
    }
    return out;
  });
}

}  // namespace nkisim::compiler
