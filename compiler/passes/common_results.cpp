// Removes repeated computations (pass `reuse`) by value numbering, with this algorithm:
//
//   for each instruction in program order:
//     number what it computes by its operation, constants and the numbers of its operands
//     skip it unless its only result is a whole SBUF tile that nothing else writes
//     if an earlier tile has the same number, and SBUF can keep it until the later one's first use:
//       let the later one's readers read the earlier tile, and drop the instruction
//     else the tile is the one for its number
#include "compiler/passes/common_results.hpp"

#include <algorithm>
#include <optional>

#include "compiler/analysis/redirect.hpp"
#include "compiler/analysis/sbuf_budget.hpp"
#include "compiler/analysis/values.hpp"
#include "isa/program/footprint.hpp"

namespace nkisim::compiler {
namespace {

class Reuser {
 public:
  Reuser(isa::Program& program, const std::vector<bool>& placed, const isa::Uses& uses)
      : program_(program),
        placed_(placed),
        uses_(uses),
        values_(program, placed),
        budget_(budget_for_longer_lifetimes(program.machine())) {}

  std::vector<std::uint32_t> run() {
    std::vector<std::uint32_t> repeated;
    if (!program_.control_flow().empty()) return repeated;
    std::uint32_t i = 0;
    for (const isa::Inst& inst : program_.insts()) {
      const std::uint32_t at = i++;
      const isa::TensorRef* result = only_result(inst);
      if (result == nullptr) {
        values_.forget(inst);
        continue;
      }
      if (!values_.number(inst)) continue;
      const std::uint32_t tile = result->tensor;
      const std::uint32_t number = values_.last(tile).number;
      if (number >= known_.size()) known_.resize(number + number / 2 + 1, kNone);
      if (known_[number] != kNone && take(tile, known_[number])) {
        repeated.push_back(at);
        continue;
      }
      if (known_[number] != kNone) values_.renew(tile);
      known_[number] = tile;
    }
    return repeated;
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // The only result of an instruction of VectorE, ScalarE or GpSimd, if it fills a tile of SBUF
  // that nothing else writes; else null.
  [[nodiscard]] const isa::TensorRef* only_result(const isa::Inst& inst) const {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.dma || inst.engine == isa::Engine::kTensor || inst.engine == isa::Engine::kSync) {
      return nullptr;
    }
    const isa::TensorRef* result = nullptr;
    for (std::size_t i = 0; i < inst.args.size(); ++i) {
      const isa::Arg& arg = inst.args[i];
      if (arg.kind == isa::Arg::Kind::kList) return nullptr;
      if (arg.kind != isa::Arg::Kind::kTensor || op.params[i].kind != isa::ParamKind::kOut) {
        continue;
      }
      if (result != nullptr || !all_of_its_own(*arg.tensor)) return nullptr;
      result = arg.tensor;
    }
    return result;
  }

  [[nodiscard]] bool all_of_its_own(const isa::TensorRef& ref) const {
    return ref.space == isa::Space::kSbuf && !placed_[ref.tensor] &&
           uses_.writes(ref.tensor) == 1 && isa::reaches_all(ref, program_);
  }

  // The analyses that change as results are taken, made when the first is.
  struct Taken {
    isa::Uses uses;
    RangeMax filled;  // bytes of SBUF in use, by instruction
  };

  Taken& taken() {
    if (taken_) return *taken_;
    taken_.emplace(Taken{uses_, RangeMax(std::max<std::size_t>(program_.insts().size(), 1))});
    for (std::uint32_t t = 0; t < program_.tensors().size(); ++t) {
      if (program_.tensors()[t].space != isa::Space::kSbuf || uses_.writes(t) == 0) continue;
      taken_->filled.add(uses_.first(t), uses_.last(t) + 1, uses_.operands().bytes(t));
    }
    return *taken_;
  }

  bool take(std::uint32_t later, std::uint32_t earlier) {
    auto& [uses, filled] = taken();
    const std::int64_t bytes = uses.operands().bytes(later);
    if (uses.readers(later).empty()) return false;
    const std::uint32_t between = uses.last(earlier) + 1, first = uses.first(later);
    if (between < first && filled.max(between, first) + bytes > budget_) return false;
    if (!redirect(program_, uses, later, earlier)) return false;
    filled.add(between, std::max(between, first), bytes);
    return true;
  }

  isa::Program& program_;
  const std::vector<bool>& placed_;
  const isa::Uses& uses_;  // before any result was taken
  std::optional<Taken> taken_;
  Values values_;
  std::int64_t budget_;
  std::vector<std::uint32_t> known_;  // tiles, by the number of what they hold
};

}  // namespace

std::vector<std::uint32_t> reuse_results(isa::Program& program, const std::vector<bool>& placed,
                                         const isa::Uses& uses) {
  return Reuser(program, placed, uses).run();
}

PassResult reuse(Unit& unit) {
  if (unit.choices.reuse == Reuse::k_none || !unit.may_drop()) return {};
  const auto repeated = reuse_results(unit.program, unit.final_addresses(), unit.uses());
  unit.program.remove(repeated);
  return {repeated.size()};
}

}  // namespace nkisim::compiler
