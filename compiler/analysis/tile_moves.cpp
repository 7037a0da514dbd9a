#include "compiler/analysis/tile_moves.hpp"

#include "isa/program/op_spec.hpp"

namespace nkisim::compiler {

TileMoves::TileMoves(isa::Program& program)
    : program_(program), users_(program.tensors().size()), plain_(users_.size(), true) {
  std::uint32_t i = 0;
  for (const isa::Inst& inst : program_.insts()) {
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      auto& users = users_[ref.tensor];
      if (users.empty() || users.back() != i) users.push_back(i);
    });
    for (const isa::Arg& arg : inst.args) {
      if (arg.kind == isa::Arg::Kind::kTensors) {
        for (const isa::TensorRef* ref : *arg.tensors) plain_[ref->tensor] = false;
      }
      if (arg.kind != isa::Arg::Kind::kTensor || arg.tensor->dynamic == nullptr) continue;
      plain_[arg.tensor->tensor] = false;
      for (const isa::DynamicOffset* d = arg.tensor->dynamic; d != nullptr; d = d->next) {
        if (d->index != nullptr) plain_[d->index->tensor] = false;
      }
    }
    ++i;
  }
}

bool TileMoves::is_whole(const isa::TensorRef& ref) const {
  const isa::Tensor& t = program_.tensor(ref);
  return ref.pattern->contiguous && ref.offset == 0 && ref.partition == t.partition &&
         ref.partitions == t.shape[0] && ref.dtype == t.dtype &&
         ref.columns() * isa::size_bytes(ref.dtype) == t.extent_bytes();
}

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
    for (const std::uint32_t i : users_[tensor]) {
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
