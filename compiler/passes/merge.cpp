// Merges several copies from PSUM to SBUF into one (pass `merge`), by this algorithm:
//
//   collect the copies of whole PSUM tiles to SBUF, by the tile that they copy to
//     (only products write the source, and nothing else reads it)
//   cut each list into groups: same line, results side by side, sources fit one bank,
//     nothing else uses the destination in between
//   for each group: place the sources side by side in one bank,
//     and put one copy where the last of the group was
#include "compiler/passes/merge.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/grouping.hpp"
#include "compiler/analysis/rewrite.hpp"
#include "isa/program/footprint.hpp"

namespace nkisim::compiler {
namespace {

// A copy of all of a PSUM tile, that nothing else reads, to a part of a tile of SBUF.
struct Leaving {
  std::uint32_t inst = 0, source = 0;
  const isa::TensorRef* to = nullptr;
};
using LeavingGroup = std::vector<Leaving>;  // whose results lie side by side, in that order

class Merger {
 public:
  Merger(isa::Program& program, const isa::Uses& uses, const std::vector<bool>& placed)
      : program_(program), uses_(uses), placed_(placed), grouping_(program, uses, placed) {}

  std::size_t run() {
    using Site = std::uint32_t;  // the tile that they copy to
    const auto sites = sites_of<Site, Leaving>(
        program_, [this](std::uint32_t i) -> std::optional<std::pair<Site, Leaving>> {
          const std::optional<Leaving> copy = leaving(i);
          if (!copy) return std::nullopt;
          return std::pair{copy->to->tensor, *copy};
        });
    for (const LeavingGroup& site : sites) {
      groups_of(
          site, [this](const auto& group, const Leaving& copy) { return continues(group, copy); },
          [this](const LeavingGroup& group) { add(group); });
    }
    return grouping_.finish_at_last();
  }

 private:
  [[nodiscard]] std::optional<Leaving> leaving(std::uint32_t i) const {
    const isa::Inst& inst = program_.insts()[i];
    if (inst.op != isa::Op::k_tensor_copy || !inst.engine_open || inst.pinned()) {
      return std::nullopt;
    }
    const isa::OpSpec& op = isa::spec(inst);
    const isa::TensorRef& dst = inst.tensor(isa::param_index(op, "dst"));
    const isa::TensorRef& src = inst.tensor(isa::param_index(op, "src"));
    const bool fits = dst.space == isa::Space::kSbuf && src.space == isa::Space::kPsum &&
                      dst.dynamic == nullptr && dst.pattern->contiguous && !placed_[src.tensor] &&
                      !placed_[dst.tensor] && isa::is_whole(src, program_) &&
                      uses_.readers(src.tensor).size() == 1 && uses_.last(src.tensor) == i &&
                      only_products_write(src.tensor);
    if (!fits) return std::nullopt;
    return Leaving{i, src.tensor, &dst};
  }

  // By TensorE, at fixed places; what is in the bank is then its business alone.
  [[nodiscard]] bool only_products_write(std::uint32_t t) const {
    const isa::Uses::Numbers writers = uses_.writers(t);
    return uses_.last(t) - uses_.first(t) <= kFar && uses_.direct(t) && uses_.fixed(t) &&
           std::all_of(writers.begin(), writers.end(), [this](std::uint32_t i) {
             return program_.insts()[i].engine == isa::Engine::kTensor;
           });
  }

  // Nothing else uses the tile that they copy to between a group's copies.
  [[nodiscard]] bool continues(const LeavingGroup& group, const Leaving& copy) const {
    const Leaving &before = group.back(), &first = group.front();
    const isa::Inst &now = program_.insts()[copy.inst], &last = program_.insts()[before.inst];
    const isa::Tensor &mine = program_.tensors()[copy.source],
                      &one = program_.tensors()[first.source];
    const isa::TensorRef &to = *copy.to, &left = *before.to;
    const auto size = static_cast<std::int64_t>(group.size()) + 1;
    return now.loc.kernel_line == last.loc.kernel_line &&
           now.loc.kernel_file == last.loc.kernel_file && now.core == last.core &&
           mine.dtype == one.dtype && mine.shape == one.shape && mine.partition == one.partition &&
           to.dtype == left.dtype && to.partition == left.partition &&
           to.partitions == left.partitions &&
           to.offset == left.offset + left.columns() * isa::size_bytes(to.dtype) &&
           size * mine.extent_bytes() <= program_.machine().psum_bank_bytes() &&
           !used_between(to.tensor, before.inst, copy.inst);
  }

  [[nodiscard]] bool used_between(std::uint32_t t, std::uint32_t from, std::uint32_t to) const {
    const auto any = [&](isa::Uses::Numbers users) {
      const auto next = std::upper_bound(users.begin(), users.end(), from);
      return next != users.end() && *next < to;
    };
    return any(uses_.readers(t)) || any(uses_.writers(t));
  }

  void add(const LeavingGroup& group) {
    const isa::Tensor& one = program_.tensors()[group.front().source];
    const auto count = static_cast<std::int64_t>(group.size());
    isa::Tensor all = one;
    all.name += "~" + std::to_string(group.size());
    all.shape = {one.shape[0], count * one.extent_bytes() / isa::size_bytes(one.dtype)};
    Grouping::Numbers sources;
    for (const Leaving& copy : group) sources.push_back(copy.source);
    const std::uint32_t bank = grouping_.side_by_side(sources, std::move(all));
    grouping_.add(numbers_of(group), [this, group, bank] { return made(group, bank); });
  }

  Grouping::Made made(const LeavingGroup& group, std::uint32_t bank) {
    isa::TensorRef to = *group.front().to;
    to.pattern = program_.intern({{1, program_.tensors()[bank].shape[1]}});
    isa::Inst copy = program_.insts()[group.back().inst];
    copy.engine = isa::Engine::kAny;
    copy.forward = false;
    return {copy, tensor_arguments(copy.op,
                                   {{"dst", program_.add_ref(to)}, {"src", program_.whole(bank)}})};
  }

  static constexpr std::uint32_t kFar = 4096;  // instructions between a tile's product and its copy
  isa::Program& program_;
  const isa::Uses& uses_;
  const std::vector<bool>& placed_;
  Grouping grouping_;
};

}  // namespace

PassResult merge(Unit& unit) {
  if (unit.choices.merge == Merge::k_none || !unit.origin.open || !unit.may_drop()) return {};
  const std::vector<bool> placed = unit.final_addresses();
  return {Merger(unit.program, unit.uses(), placed).run()};
}

}  // namespace nkisim::compiler
