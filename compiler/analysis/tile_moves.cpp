// Moves tiles into larger tiles, and changes the operands that use them.
#include "compiler/analysis/tile_moves.hpp"

#include <vector>

namespace nkisim::compiler {

const TileMoves::Place* TileMoves::find(std::uint32_t tensor) const {
  const auto to = moved_.find(tensor);
  return to == moved_.end() ? nullptr : &to->second;
}

TileMoves::Place TileMoves::place(const isa::TensorRef& ref) const {
  const Place* to = find(ref.tensor);
  return to == nullptr ? Place{ref.tensor, ref.offset} : Place{to->tile, to->offset + ref.offset};
}

const isa::TensorRef* TileMoves::moved(const isa::TensorRef* ref) {
  if (find(ref->tensor) == nullptr) return ref;
  const Place to = place(*ref);
  isa::TensorRef there = *ref;
  there.tensor = to.tile;
  there.offset = to.offset;
  return program_.add_ref(there);
}

void TileMoves::apply() {
  for (const auto& [tensor, to] : moved_) {
    for (const std::uint32_t i : uses_.users(tensor)) {
      const isa::Inst& inst = program_.insts()[i];
      std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
      for (isa::Arg& arg : args) {
        if (arg.kind == isa::Arg::Kind::kTensor) arg.tensor = moved(arg.tensor);
      }
      program_.set_args(i, args);
    }
  }
}

}  // namespace nkisim::compiler
