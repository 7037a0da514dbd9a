// Replaces tensors in the arguments of an instruction by those that a pass put in their place.
#include "compiler/analysis/remap.hpp"

namespace nkisim::compiler {

void Remap::set(std::uint32_t tensor, std::uint32_t other) {
  if (tensor >= now_.size()) now_.resize(tensor + std::size_t{1}, kItself);
  now_[tensor] = other;
}

const isa::TensorRef* Remap::moved(const isa::TensorRef* ref) {
  isa::TensorRef copy = *ref;
  copy.tensor = (*this)(ref->tensor);
  copy.dynamic = moved(ref->dynamic);
  return copy.tensor == ref->tensor && copy.dynamic == ref->dynamic ? ref : program_.add_ref(copy);
}

const isa::DynamicOffset* Remap::moved(const isa::DynamicOffset* d) {
  if (d == nullptr) return d;
  isa::DynamicOffset copy = *d;
  if (d->index != nullptr) copy.index = moved(d->index);
  copy.next = moved(d->next);
  return copy.index == d->index && copy.next == d->next ? d : program_.add_dynamic(copy);
}

std::vector<isa::Arg> Remap::arguments(const isa::Inst& inst) {
  std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
  for (isa::Arg& arg : args) {
    if (arg.kind == isa::Arg::Kind::kTensor) arg.tensor = moved(arg.tensor);
    if (arg.kind != isa::Arg::Kind::kTensors) continue;
    isa::RefList refs;
    for (const isa::TensorRef* ref : *arg.tensors) refs.push_back(moved(ref));
    arg.tensors = program_.add_refs(std::move(refs));
  }
  return args;
}

}  // namespace nkisim::compiler
