#include "compiler/passes/casts.hpp"

#include <string>

#include "compiler/analysis/rewrite.hpp"

namespace nkisim::compiler {
namespace {

// What engines accept as an operand's first partition, for so many.
bool may_start(int partition, int partitions) {
  return partition == 0 || (partition % 32 == 0 && partitions <= 32) ||
         (partition == 64 && partitions <= 64);
}

struct Store {
  const isa::TensorRef* dst = nullptr;
  const isa::TensorRef* src = nullptr;
};

// Its operands if it is a store to be divided.
Store narrowing_store(const isa::Inst& inst, const std::vector<bool>& placed) {
  if (inst.op != isa::Op::k_dma_copy || !inst.engine_open || inst.sync != nullptr) return {};
  const isa::OpSpec& op = isa::spec(inst);
  const Store s = {&inst.tensor(isa::param_index(op, "dst")),
                   &inst.tensor(isa::param_index(op, "src"))};
  const bool fits = s.dst->space == isa::Space::kHbm && s.src->space == isa::Space::kSbuf &&
                    s.dst->dynamic == nullptr && s.src->dynamic == nullptr &&
                    s.src->dtype == isa::Dtype::kFloat32 && isa::size_bytes(s.dst->dtype) == 2 &&
                    isa::kFloats.contains(s.dst->dtype) && !placed[s.src->tensor] &&
                    may_start(s.src->partition, s.src->partitions);
  return fits ? s : Store{};
}

}  // namespace

Done casts(Unit& unit) {
  if (unit.choices.casts == Casts::k_dma || !unit.origin.open || !unit.may_drop()) return {};
  isa::Program& program = unit.program;
  const std::vector<bool> placed = unit.final_addresses();
  Rewrite rewrite(program);
  const std::size_t count = program.insts().size();
  Done done;
  for (std::size_t i = 0; i < count; ++i) {
    const isa::Inst store = program.insts()[i];
    const auto [dst, src] = narrowing_store(store, placed);
    if (dst == nullptr) continue;
    isa::Tensor narrow = program.tensor(*src);
    narrow.name += "~cast" + std::to_string(done.changed++);
    narrow.dtype = dst->dtype;
    narrow.shape = {src->partitions, src->columns()};
    narrow.partition = src->partition;
    const isa::TensorRef* tile = program.whole(program.add_tensor(std::move(narrow)));
    isa::Inst cast;
    cast.op = isa::Op::k_tensor_copy;
    cast.core = store.core;
    cast.loc = store.loc;
    rewrite.put(i, cast, tensor_arguments(cast.op, {{"dst", tile}, {"src", src}}));
    std::vector<isa::Arg> args(store.args.begin(), store.args.end());
    args.at(static_cast<std::size_t>(isa::param_index(isa::spec(store), "src"))).tensor = tile;
    program.set_args(i, args);
  }
  rewrite.finish();
  return done;
}

}  // namespace nkisim::compiler
