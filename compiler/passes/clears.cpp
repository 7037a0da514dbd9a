// Removes memsets of PSUM that matmuls overwrite (pass `clears`), by this algorithm:
//
//   for each instruction in program order:
//     a loop or a branch ends the search for all open clears
//     each PSUM operand that it reads: forget the clears with such cells not yet overwritten
//     each PSUM operand that it overwrites: mark the cells in the open clears
//       a clear without cells left is dead
//     a dense memset of a PSUM tile without an address: open a clear of all its cells
//   remove the dead clears
#include "compiler/passes/clears.hpp"

#include <algorithm>
#include <unordered_map>

#include "isa/program/writes.hpp"

namespace nkisim::compiler {
namespace {

// A clear whose fate is open: cells (of 2 bytes) not yet overwritten.
struct Clear {
  std::uint32_t inst = 0;
  const isa::TensorRef* ref = nullptr;
  std::vector<bool> left;
  std::size_t count = 0;
};

class ClearFinder {
 public:
  ClearFinder(const isa::Program& program, const isa::Operands& operands,
              const std::vector<bool>& placed)
      : program_(program), operands_(operands), placed_(placed) {}

  std::vector<std::uint32_t> run() {
    std::uint32_t i = 0;
    for (const isa::Inst& inst : program_.insts()) {
      if (isa::spec(inst).control != isa::OpSpec::Control::kNone) open_.clear();
      visit(inst, i++);
    }
    std::sort(dead_.begin(), dead_.end());
    return std::move(dead_);
  }

 private:
  static constexpr std::int64_t kCell = 2;

  void visit(const isa::Inst& inst, std::uint32_t number) {
    if (!open_.empty() && reaches_psum(number)) follow(inst);
    if (operands_.of(number).size() == 1 && only_fills(inst)) begin(inst, number);
  }

  [[nodiscard]] bool reaches_psum(std::uint32_t number) const {
    const auto operands = operands_.of(number);
    return std::any_of(operands.begin(), operands.end(), [](const isa::Operand& operand) {
      return operand.space() == isa::Space::kPsum;
    });
  }

  void follow(const isa::Inst& inst) {
    for (const bool writes : {false, true}) {
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param& p, bool write) {
        if (write != writes || ref.space != isa::Space::kPsum || placed_[ref.tensor]) return;
        const bool reads = !write || isa::reads_before(inst, p) || ref.dynamic != nullptr;
        if (reads) {
          keep(ref);
        } else {
          overwrite(ref);
        }
      });
    }
  }

  // True if the instruction writes its first operand and has no other effect, as a memset does.
  static bool only_fills(const isa::Inst& inst) {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.state != isa::OpSpec::State::kNone || op.params.empty() || !inst.is_tensor(0) ||
        inst.pinned()) {
      return false;
    }
    return op.params[0].kind == isa::ParamKind::kOut;
  }

  void begin(const isa::Inst& inst, std::uint32_t number) {
    const isa::TensorRef& ref = inst.tensor(0);
    if (ref.space != isa::Space::kPsum || placed_[ref.tensor] || !dense(ref)) return;
    Clear clear{.inst = number, .ref = &ref, .left = {}, .count = cells(ref)};
    clear.left.assign(clear.count, true);
    open_[ref.tensor].push_back(std::move(clear));
  }

  static bool dense(const isa::TensorRef& ref) {
    return ref.dynamic == nullptr && ref.pattern->contiguous;
  }
  static std::size_t cells(const isa::TensorRef& ref) {
    return static_cast<std::size_t>(ref.columns() * isa::size_bytes(ref.dtype) / kCell);
  }

  // An instruction that reads cells not yet overwritten needs the clear.
  void keep(const isa::TensorRef& ref) {
    const auto found = open_.find(ref.tensor);
    if (found == open_.end()) return;
    if (!dense(ref)) {
      open_.erase(found);
      return;
    }
    std::erase_if(found->second, [&](const Clear& clear) {
      const auto [first, last] = common(clear, ref);
      return std::any_of(clear.left.begin() + first, clear.left.begin() + last,
                         [](bool left) { return left; });
    });
  }

  void overwrite(const isa::TensorRef& ref) {
    const auto found = open_.find(ref.tensor);
    if (found == open_.end()) return;
    for (Clear& clear : found->second) cover(clear, ref);
    std::erase_if(found->second, [&](const Clear& clear) {
      if (clear.count == 0) dead_.push_back(clear.inst);
      return clear.count == 0;
    });
  }

  // The cells of a clear that an operand touches, whatever its partitions.
  static std::pair<std::int64_t, std::int64_t> common(const Clear& clear,
                                                      const isa::TensorRef& ref) {
    const std::int64_t first = (ref.offset - clear.ref->offset) / kCell;
    const auto size = static_cast<std::int64_t>(clear.left.size());
    const std::int64_t last = first + static_cast<std::int64_t>(cells(ref));
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, size);
    return {begin, std::clamp<std::int64_t>(last, begin, size)};
  }

  static void cover(Clear& clear, const isa::TensorRef& ref) {
    const isa::TensorRef& c = *clear.ref;
    if (!dense(ref) || ref.partition > c.partition ||
        ref.partition + ref.partitions < c.partition + c.partitions) {
      return;
    }
    const auto [first, last] = common(clear, ref);
    for (std::int64_t i = first; i < last; ++i) {
      const auto at = static_cast<std::size_t>(i);
      clear.count -= clear.left[at] ? 1 : 0;
      clear.left[at] = false;
    }
  }

  const isa::Program& program_;
  const isa::Operands& operands_;
  const std::vector<bool>& placed_;
  std::unordered_map<std::uint32_t, std::vector<Clear>> open_;  // by tensor
  std::vector<std::uint32_t> dead_;
};

}  // namespace

std::vector<std::uint32_t> dead_clears(const isa::Program& program, const isa::Operands& operands,
                                       const std::vector<bool>& placed) {
  return ClearFinder(program, operands, placed).run();
}

PassResult clears(Unit& unit) {
  if (unit.choices.clears == Clears::k_keep || !unit.may_drop()) return {};
  const std::vector<std::uint32_t> dead =
      dead_clears(unit.program, unit.uses().operands(), unit.final_addresses());
  unit.program.remove(dead);
  return {dead.size()};
}

}  // namespace nkisim::compiler
