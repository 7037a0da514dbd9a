#include "compiler/unit.hpp"

namespace nkisim::compiler {

const isa::Uses& Unit::uses() {
  return found_uses(program, [this] { return isa::Uses(program); });
}

const Values& Unit::values() {
  return found_values(program, [this] { return Values::of(program, final_addresses()); });
}

std::vector<bool> Unit::final_addresses() const {
  std::vector<bool> out;
  for (const isa::Tensor& t : program.tensors()) {
    const bool open = program.virtual_addresses() && !t.fixed;
    out.push_back(t.space != isa::Space::kHbm && !open);
  }
  return out;
}

}  // namespace nkisim::compiler
