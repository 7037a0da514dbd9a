// Removes and inserts casts between float32 and 16-bit tiles (pass `casts`), by this algorithm:
//
//   on trn1, API neuronxcc.nki, for each copy that widens a 16-bit tile to float32:
//     if all its readers sum the whole of it, and the source stays as it is:
//       let them read the source, and drop the copy
//   for each DMA that stores a float32 tile of SBUF to a 16-bit tensor:
//     make a tile of the narrow type
//     put a tensor_copy into it before the store, and store the narrow tile instead
#include "compiler/passes/casts.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/analysis/rewrite.hpp"

namespace nkisim::compiler {
namespace {

// True if engines accept `partition` as the first of so many.
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

// The operands of a copy that makes float32 of a tile of 16-bit floats, column for column.
Store widening_copy(const isa::Inst& inst, const std::vector<bool>& placed) {
  if (inst.op != isa::Op::k_tensor_copy || inst.pinned() || !inst.engine_open) return {};
  const isa::OpSpec& op = isa::spec(inst);
  const Store s = {&inst.tensor(isa::param_index(op, "dst")),
                   &inst.tensor(isa::param_index(op, "src"))};
  const bool fits = s.dst->space == isa::Space::kSbuf && s.src->space == isa::Space::kSbuf &&
                    s.dst->dynamic == nullptr && s.src->dynamic == nullptr &&
                    s.dst->dtype == isa::Dtype::kFloat32 && isa::size_bytes(s.src->dtype) == 2 &&
                    isa::kFloats.contains(s.src->dtype) && !placed[s.dst->tensor] &&
                    s.src->pattern == s.dst->pattern && s.src->partitions == s.dst->partitions;
  return fits ? s : Store{};
}

// The readers of a copy's result, if all of them sum the whole of it; else none.
isa::Uses::Numbers sums_of(const Store& copy, std::uint32_t at, const isa::Program& program,
                           const isa::Uses& uses) {
  const std::uint32_t wide = copy.dst->tensor;
  const auto readers = uses.readers(wide);
  if (uses.writes(wide) != 1 || readers.empty() || !uses.direct(wide)) return {};
  const bool sums = std::all_of(readers.begin(), readers.end(), [&](std::uint32_t reader) {
    const isa::Inst& inst = program.insts()[reader];
    if (inst.op != isa::Op::k_tensor_reduce || inst.pinned() || reader < at) return false;
    const isa::TensorRef& data = inst.tensor(isa::param_index(isa::spec(inst), "data"));
    return data.tensor == wide && data.dynamic == nullptr && data.pattern == copy.dst->pattern &&
           data.offset == copy.dst->offset && data.partition == copy.dst->partition &&
           data.partitions == copy.dst->partitions;
  });
  const auto writers = uses.writers(copy.src->tensor);
  const bool stays = std::none_of(writers.begin(), writers.end(), [&](std::uint32_t writer) {
    return writer > at && writer < readers.back();
  });
  return sums && stays ? readers : isa::Uses::Numbers{};
}

// Sums read the narrow tile, and the copies that widened it for them are left out.
std::size_t fold_into_sums(Unit& unit) {
  isa::Program& program = unit.program;
  const isa::Uses uses = unit.uses();
  const std::vector<bool> placed = unit.final_addresses();
  std::vector<std::uint32_t> unneeded;
  for (std::uint32_t i = 0; i < program.insts().size(); ++i) {
    const Store copy = widening_copy(program.insts()[i], placed);
    if (copy.dst == nullptr) continue;
    const auto sums = sums_of(copy, i, program, uses);
    for (const std::uint32_t reader : sums) {
      const isa::Inst& inst = program.insts()[reader];
      std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
      args.at(static_cast<std::size_t>(isa::param_index(isa::spec(inst), "data"))).tensor =
          copy.src;
      program.set_args(reader, args);
    }
    if (!sums.empty()) unneeded.push_back(i);
  }
  if (!unneeded.empty()) program.remove(unneeded);
  return unneeded.size();
}

}  // namespace

PassResult casts(Unit& unit) {
  if (unit.choices.casts == Casts::k_dma || !unit.origin.open || !unit.may_drop()) return {};
  isa::Program& program = unit.program;
  std::size_t folded = 0;
  if (unit.origin.legacy && program.machine().generation < isa::Generation::kV3) {
    folded = fold_into_sums(unit);
  }
  const std::vector<bool> placed = unit.final_addresses();
  Rewrite rewrite(program);
  const std::size_t count = program.insts().size();
  PassResult done;
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
  if (folded > 0) {
    done.changed += folded;
    done.text = std::to_string(folded) + " casts folded into sums";
  }
  return done;
}

}  // namespace nkisim::compiler
