// Handles on-chip tensors that share addresses: a write to one makes bytes of the others undefined.
// It also frees the record of written bytes when a tensor is needed no longer.
#include <algorithm>
#include <limits>

#include "isa/machine/memory.hpp"

namespace nkisim::isa {
namespace {

// Instructions between which a tensor is in use: its first and last, loops around them included.
struct Use {
  std::size_t first = std::numeric_limits<std::size_t>::max(), last = 0;
  std::uint32_t count = 0;
  bool in_block = false;
  [[nodiscard]] bool any() const { return count != 0; }
};

struct Block {
  std::size_t begin, end;
};

// Outermost loops and branches of each core, in order.
std::vector<std::vector<Block>> outer_blocks(const Program& program) {
  std::vector<std::vector<Block>> blocks(static_cast<std::size_t>(program.cores()));
  std::vector<int> depth(blocks.size(), 0);
  for (const std::size_t i : program.control_flow()) {
    const Inst& inst = program.insts()[i];
    const auto core = static_cast<std::size_t>(inst.core);
    using enum OpSpec::Control;
    const OpSpec::Control c = spec(inst).control;
    if (c == kLoopBegin || c == kWhileBegin || c == kIfBegin) {
      if (depth[core]++ == 0) blocks[core].push_back({i, i});
    } else if (c != kElseBegin && --depth[core] == 0) {
      blocks[core].back().end = i;
    }
  }
  return blocks;
}

std::vector<Use> uses_of(const Program& program) {
  const auto blocks = outer_blocks(program);
  std::vector<Use> uses(program.tensors().size());
  std::vector<std::size_t> at(blocks.size(), 0);  // the core's current or next block
  std::size_t i = 0;
  for (const Inst& inst : program.insts()) {
    const auto core = static_cast<std::size_t>(inst.core);
    const auto& own = blocks[core];
    while (at[core] < own.size() && own[at[core]].end < i) ++at[core];
    const bool inside = at[core] < own.size() && own[at[core]].begin <= i;
    const Block span = inside ? own[at[core]] : Block{i, i};
    if (spec(inst).eval != nullptr || spec(inst).combine != nullptr) {
      for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool) {
        if (!ref.on_chip()) return;
        Use& use = uses[ref.tensor];
        use.first = std::min(use.first, span.begin);
        use.last = std::max(use.last, span.end);
        use.in_block |= inside;
        ++use.count;
      });
    }
    ++i;
  }
  return uses;
}

bool overlap(const Tensor& a, const Tensor& b) {
  return a.core == b.core && a.space == b.space && a.address < b.address + b.extent_bytes() &&
         b.address < a.address + a.extent_bytes() && a.partition < b.partition + b.shape[0] &&
         b.partition < a.partition + a.shape[0];
}

}  // namespace

void Memory::begin_run() {
  constexpr std::int64_t kKeep = std::int64_t{32} << 20U;  // bytes of bits worth giving back
  sharing_.clear();
  uses_left_.clear();
  const bool placed = !program_.virtual_addresses();
  std::vector<std::uint32_t> order;  // with an address, by first use
  std::int64_t bits = 0;
  for (std::uint32_t id = 0; id < program_.tensors().size(); ++id) {
    const Tensor& t = program_.tensor(id);
    if (t.space == Space::kHbm || !(placed || t.fixed)) continue;
    order.push_back(id);
    bits += t.shape[0] * t.extent_bytes() / 8;
  }
  if (order.size() < 2) return;
  std::vector<Use> uses = uses_of(program_);
  for (const std::uint32_t id : order) {  // raw memory has what was written before and after
    if (!program_.tensor(id).is_raw() || !uses[id].any()) continue;
    uses[id].first = 0;
    uses[id].last = std::numeric_limits<std::size_t>::max();
  }
  for (const std::uint32_t id : kept_) {
    if (uses[id].any()) uses[id].last = std::numeric_limits<std::size_t>::max();
  }
  if (placed && bits > kKeep && kept_.empty()) {
    uses_left_.resize(uses.size());
    for (const std::uint32_t id : order) {
      uses_left_[id] = uses[id].in_block ? 0 : uses[id].count;
    }
  }
  std::erase_if(order, [&](std::uint32_t id) { return !uses[id].any(); });
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return uses[a].first < uses[b].first; });
  std::vector<std::uint32_t> live;
  for (const std::uint32_t id : order) {
    std::erase_if(live, [&](std::uint32_t other) { return uses[other].last < uses[id].first; });
    for (const std::uint32_t other : live) {
      if (!overlap(program_.tensor(id), program_.tensor(other))) continue;
      sharing_.resize(program_.tensors().size());
      sharing_[id].push_back(other);
      sharing_[other].push_back(id);
    }
    live.push_back(id);
  }
}

// fn(other, its row, its first byte in the row, bytes) for each tensor that shares some of them.
template <typename Fn>
void Memory::each_sharing(std::uint32_t tensor, std::int64_t bit, std::int64_t count, Fn&& fn) {
  const Tensor& own = program_.tensor(tensor);
  const std::int64_t address = own.address + bit % own.extent_bytes();
  const std::int64_t partition = own.partition + bit / own.extent_bytes();
  for (const std::uint32_t id : sharing(tensor)) {
    const Tensor& t = program_.tensor(id);
    const std::int64_t row = partition - t.partition;
    const std::int64_t first = std::max<std::int64_t>(address - t.address, 0);
    const std::int64_t last = std::min(address + count - t.address, t.extent_bytes());
    if (row >= 0 && row < t.shape[0] && first < last) fn(id, row, first, last - first);
  }
}

void Memory::overwrite_sharing(std::uint32_t tensor, std::int64_t bit, std::int64_t count,
                               const Inst& writer) {
  each_sharing(tensor, bit, count,
               [&](std::uint32_t id, std::int64_t row, std::int64_t first, std::int64_t bytes) {
                 const Tensor& t = program_.tensor(id);
                 const std::int64_t at = row * t.extent_bytes() + first;
                 if (t.is_raw() || program_.tensor(tensor).is_raw()) {
                   bits(id).define(at, bytes);
                   return;
                 }
                 const std::uint32_t origin =
                     origins_.root({.kind = Origin::Kind::kOverwritten,
                                    .tensor = id,
                                    .other = tensor,
                                    .inst = &writer,
                                    .byte = first,
                                    .partition = t.partition + static_cast<int>(row)});
                 bits(id).undefine(at, bytes, origin);
               });
}

void Memory::undefine(std::uint32_t tensor, std::int64_t bit, std::int64_t count,
                      std::uint32_t origin) {
  bits(tensor).undefine(bit, count, origin);
  if (program_.tensor(tensor).space == Space::kHbm) return;
  each_sharing(tensor, bit, count,
               [&](std::uint32_t id, std::int64_t row, std::int64_t first, std::int64_t bytes) {
                 const Tensor& t = program_.tensor(id);
                 if (!t.is_raw() && !program_.tensor(tensor).is_raw()) return;
                 bits(id).undefine(row * t.extent_bytes() + first, bytes, origin);
               });
}

// A tensor all of whose uses are done leaves its bits; its address may have another tenant by now.
void Memory::count_uses(const Inst& inst) {
  for_each_tensor(inst, [&](const TensorRef& ref, const Param&, bool) {
    if (!ref.on_chip() || uses_left_[ref.tensor] == 0) return;
    if (--uses_left_[ref.tensor] == 0) bits_[ref.tensor].reset();
  });
}

}  // namespace nkisim::isa
