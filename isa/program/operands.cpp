// Collects the byte ranges that all instructions touch, and stores equal ranges once.

#include "isa/program/operands.hpp"

#include <stdexcept>

namespace nkisim::isa {

// Finds the reach of an operand; a table of those that there are, by what they depend on.
struct Operands::Interner {
  struct Key {
    const Pattern* pattern = nullptr;
    std::int64_t offset = 0;
    std::uint64_t rest = 0;    // partitions, dtype
    std::int64_t tensor = -1;  // of a dynamic address, which reaches all of its tensor
    bool operator==(const Key&) const = default;
  };
  struct Tile {  // of a tensor, what `whole` asks for
    std::int64_t rows = 0;
    std::uint16_t partition = 0;
  };
  const Program& program;
  Operands& out;
  std::vector<Tile> tiles;                // by tensor
  std::vector<Key> keys;                  // by reach
  std::vector<std::uint32_t> slots = {};  // open addressing, at most half full; reach + 1

  static std::uint64_t hash(const Key& key) {
    std::uint64_t h = reinterpret_cast<std::uintptr_t>(key.pattern);
    for (const std::uint64_t word : {static_cast<std::uint64_t>(key.offset), key.rest,
                                     static_cast<std::uint64_t>(key.tensor)}) {
      h = (h ^ word) * 0x9E3779B97F4A7C15U;
      h ^= h >> 32U;
    }
    return h;
  }

  std::uint32_t& slot_of(const Key& key) {
    std::size_t at = hash(key) & (slots.size() - 1);
    while (slots[at] != 0 && keys[slots[at] - 1] != key) at = (at + 1) & (slots.size() - 1);
    return slots[at];
  }

  void widen() {
    constexpr std::size_t kLeast = 256;
    slots.assign(std::max(kLeast, 2 * slots.size()), 0);
    for (std::uint32_t r = 0; r < keys.size(); ++r) slot_of(keys[r]) = r + 1;
  }

  std::uint32_t reach_of(const TensorRef& ref) {
    Key key{.pattern = ref.pattern,
            .offset = ref.offset,
            .rest = std::uint64_t{ref.partition} << 32U | std::uint64_t{ref.partitions} << 16U |
                    static_cast<std::uint64_t>(ref.dtype) << 1U | (ref.on_chip() ? 1U : 0U)};
    if (ref.dynamic != nullptr) key = {.tensor = ref.tensor};
    if (2 * (keys.size() + 1) > slots.size()) widen();
    std::uint32_t& slot = slot_of(key);
    if (slot == 0) {
      if (keys.size() == Operand::kReaches) throw std::length_error("operands");
      keys.push_back(key);
      add_reach(ref);
      slot = static_cast<std::uint32_t>(keys.size());
    }
    return slot - 1;
  }

  void add_reach(const TensorRef& ref) const {
    Footprint f = static_footprint(ref, program);
    const std::int64_t base = ref.on_chip() ? program.tensor(ref).address : 0;
    f.first -= base;
    f.last -= base;
    Reach reach{f.first, f.last, f.partition, f.partition_end};
    if (!f.dense()) {
      reach.gaps = static_cast<std::uint32_t>(out.gaps_.size());
      out.gaps_.push_back(f);
    }
    out.reaches_.push_back(reach);
  }

  void add(const TensorRef& ref, const Param& param, bool direct) {
    const std::uint32_t r = reach_of(ref);
    const Reach& reach = out.reaches_[r];
    const Tile& tile = tiles[ref.tensor];
    const bool whole = ref.dynamic == nullptr && reach.dense() && ref.partition == tile.partition &&
                       ref.partitions == tile.rows &&
                       reach.last - reach.first == out.bytes_[ref.tensor];
    std::uint32_t flags = direct ? 0U : Operand::kPart;
    if (is_written(param.kind)) flags |= Operand::kWrite;
    if (param.kind == ParamKind::kInOut) flags |= Operand::kKeeps;
    if (ref.dynamic != nullptr) flags |= Operand::kDynamic;
    if (whole) flags |= Operand::kWhole;
    out.operands_.emplace_back(ref.tensor, r, ref.space, flags);
  }

  void add_all(const TensorRef& ref, const Param& param, bool direct) {
    for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
      if (d->index != nullptr) add(*d->index, kIndexParam, false);
    }
    add(ref, param, direct);
  }
};

Operands::Operands(const Program& program) {
  const std::size_t tensors = program.tensors().size(), count = program.insts().size();
  if (tensors > Operand::kTensors) throw std::length_error("tensors");
  bytes_.reserve(tensors);
  Interner interner{program, *this, {}, {}};
  interner.tiles.reserve(tensors);
  for (const Tensor& t : program.tensors()) {
    bytes_.push_back(t.extent_bytes());
    interner.tiles.push_back({t.shape.empty() ? 0 : t.shape[0], t.partition});
  }
  rows_.reserve(count);
  operands_.reserve(3 * count);
  for (const Inst& inst : program.insts()) {
    const auto begin = static_cast<std::uint32_t>(operands_.size());
    const auto params = spec(inst).params;
    for (std::size_t i = 0; i < inst.args.size(); ++i) {
      const Arg& arg = inst.args[i];
      if (arg.kind == Arg::Kind::kTensor) interner.add_all(*arg.tensor, params[i], true);
      if (arg.kind != Arg::Kind::kTensors) continue;
      for (const TensorRef* ref : *arg.tensors) interner.add_all(*ref, params[i], false);
    }
    rows_.push_back({begin, static_cast<std::uint32_t>(operands_.size()) - begin});
  }
}

Footprint Operands::footprint(const Reach& reach, std::int64_t base) const {
  Footprint f = gaps_[reach.gaps];
  f.first += base;
  f.last += base;
  return f;
}

void Operands::reorder(std::span<const std::uint32_t> order) {
  std::vector<Row> rows;
  rows.reserve(order.size());
  for (const std::uint32_t from : order) rows.push_back(rows_[from]);
  rows_ = std::move(rows);
}

}  // namespace nkisim::isa
