// Applies the changes that a compiler pass has collected: instructions added and removed.
#include "compiler/analysis/rewrite.hpp"

namespace nkisim::compiler {

void Rewrite::finish() {
  std::vector<std::uint32_t> order, gone;
  for (std::uint32_t i = 0; i < before_.size(); ++i) {
    order.insert(order.end(), before_[i].begin(), before_[i].end());
    if (dropped_[i]) gone.push_back(static_cast<std::uint32_t>(order.size()));
    order.push_back(i);
  }
  program_.reorder(order);
  if (!gone.empty()) program_.remove(gone);
}

std::vector<isa::Arg> tensor_arguments(isa::Op op, std::initializer_list<NamedTensor> tensors) {
  std::vector<isa::Arg> args(isa::spec(op).params.size());
  for (const NamedTensor& t : tensors) {
    isa::Arg& arg = args.at(static_cast<std::size_t>(isa::param_index(isa::spec(op), t.name)));
    arg.kind = isa::Arg::Kind::kTensor;
    arg.tensor = t.ref;
  }
  return args;
}

}  // namespace nkisim::compiler
