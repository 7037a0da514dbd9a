// Merges small row reductions of several tiles into one instruction (pass `rows`), by this
// algorithm:
//
//   collect tensor_reduce to one column and reciprocal of small SBUF tiles, by line of the kernel
//   cut each list into groups of equal, independent ones: up to eight,
//     and no more than PSUM holds the products of
//   for each group: place the inputs side by side, and so the results;
//     one instruction does all of the group
//   order the program again: each instruction as soon as its operands are there, the oldest first
//   undo everything if the groups wait for one another or the tiles no longer fit
#include "compiler/passes/batch_statistics.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/analysis/grouping.hpp"
#include "isa/program/footprint.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::size_t kMostRows = 8;          // iterations of a loop: the most that a profile shows
constexpr std::int64_t kSmallStatistic = 64;  // bytes per partition of what is reduced

// A step of a statistic: data -> dst, both all of their tiles.
struct Step {
  std::uint32_t inst = 0, data = 0, dst = 0;
};

using RowGroup = std::vector<Step>;

class RowMerger {
 public:
  RowMerger(isa::Program& program, const isa::Uses& uses, const std::vector<bool>& placed)
      : program_(program), uses_(uses), placed_(placed), grouping_(program, uses, placed) {}

  // Returns the number of instructions saved. Nothing if there is no order; the program is then
  // spoilt.
  std::optional<std::size_t> run() {
    const std::vector<RowGroup> sites = steps_by_site();
    if (sites.empty()) return 0;
    grouping_.find_dependences();
    for (const RowGroup& site : sites) {
      groups_of(
          site, [this](const auto& group, const Step& step) { return continues(group, step); },
          [this](const RowGroup& group) { add(group); });
    }
    return grouping_.finish_when_ready();
  }

 private:
  // All of a small tile of SBUF that may be moved.
  [[nodiscard]] bool small(const isa::TensorRef& ref) const {
    return ref.space == isa::Space::kSbuf && !placed_[ref.tensor] &&
           program_.tensor(ref).extent_bytes() <= kSmallStatistic &&
           grouping_.moves().can_move(ref.tensor) && isa::is_whole(ref, program_);
  }

  using Site = std::tuple<std::uint32_t, std::uint32_t, isa::Op, std::int64_t>;

  std::vector<RowGroup> steps_by_site() const {
    return sites_of<Site, Step>(program_, [this](std::uint32_t i) { return step(i); });
  }

  [[nodiscard]] std::optional<std::pair<Site, Step>> step(std::uint32_t i) const {
    const isa::Inst& inst = program_.insts()[i];
    const bool reduces = inst.op == isa::Op::k_tensor_reduce;
    if (!reduces && inst.op != isa::Op::k_reciprocal) return std::nullopt;
    if (!inst.engine_open || inst.pinned() || inst.loc.kernel_line == 0) return std::nullopt;
    const isa::TensorRef& dst = inst.tensor(isa::param_index(isa::spec(inst), "dst"));
    const isa::TensorRef& data = inst.tensor(isa::param_index(isa::spec(inst), "data"));
    if (!small(dst) || !small(data) || dst.columns() != 1 || dst.tensor == data.tensor ||
        uses_.writes(dst.tensor) != 1 || uses_.writes(data.tensor) == 0 ||
        uses_.writers(data.tensor).back() > i) {
      return std::nullopt;
    }
    return std::pair{Site{inst.loc.kernel_file, inst.loc.kernel_line, inst.op, data.columns()},
                     Step{i, data.tensor, dst.tensor}};
  }

  // Equal, independent ones, as many as PSUM holds.
  [[nodiscard]] bool continues(const RowGroup& group, const Step& step) const {
    return group.size() < rows_that_fit(group.front()) && alike(group, step);
  }

  [[nodiscard]] bool alike(const RowGroup& group, const Step& step) const {
    const auto same = [&](std::uint32_t a, std::uint32_t b) {
      const isa::Tensor &x = program_.tensors()[a], &y = program_.tensors()[b];
      return x.dtype == y.dtype && x.shape == y.shape && x.partition == y.partition &&
             x.core == y.core && a != b;
    };
    const auto reads_it = [&](const Step& s) { return s.data == step.data; };
    if (std::any_of(group.begin(), group.end(), reads_it)) return false;
    const Step& first = group.front();
    if (!same(first.data, step.data) || !same(first.dst, step.dst)) return false;
    const isa::Inst &a = program_.insts()[first.inst], &b = program_.insts()[step.inst];
    for (std::size_t k = 0; k < a.args.size(); ++k) {
      const isa::Arg &x = a.args[k], &y = b.args[k];
      if (x.kind != y.kind) return false;
      if (x.kind == isa::Arg::Kind::kList
              ? *x.list != *y.list
              : x.kind != isa::Arg::Kind::kTensor && x.present() && x.integer != y.integer) {
        return false;
      }
    }
    return !grouping_.waits(group, step.inst);
  }

  // As many as the banks allow in which one iteration's products lie.
  [[nodiscard]] std::size_t rows_that_fit(const Step& step) const {
    std::vector<std::uint32_t> seen = {step.data}, banks;
    for (std::size_t k = 0; k < seen.size() && seen.size() < 64; ++k) {
      for (const std::uint32_t writer : uses_.writers(seen[k])) {
        isa::for_each_tensor(
            program_.insts()[writer], [&](const isa::TensorRef& ref, const isa::Param&, bool) {
              auto& list = ref.space == isa::Space::kPsum ? banks : seen;
              if (!ref.on_chip() || std::find(list.begin(), list.end(), ref.tensor) != list.end()) {
                return;
              }
              list.push_back(ref.tensor);
            });
      }
    }
    std::size_t taken = 0;
    for (const std::uint32_t t : banks) {
      const std::int64_t bank = program_.machine().psum_bank_bytes();
      taken += static_cast<std::size_t>((program_.tensors()[t].extent_bytes() + bank - 1) / bank);
    }
    if (taken == 0) return kMostRows;
    return std::clamp<std::size_t>(static_cast<std::size_t>(program_.machine().psum_banks) / taken,
                                   1, kMostRows);
  }

  // If the tiles can lie side by side: those that an earlier group has moved already do.
  void add(const RowGroup& group) {
    const TileMoves& moves = grouping_.moves();
    const TileMoves::Place* first = moves.find(group.front().data);
    for (std::size_t k = 0; k < group.size(); ++k) {
      const TileMoves::Place* at = moves.find(group[k].data);
      if ((at == nullptr) != (first == nullptr) || moves.find(group[k].dst) != nullptr) return;
      if (at == nullptr) continue;
      const std::int64_t bytes = program_.tensors()[group[k].data].extent_bytes();
      if (at->tile != first->tile || at->offset != static_cast<std::int64_t>(k) * bytes) return;
    }
    if (first == nullptr) side_by_side(group, &Step::data);
    side_by_side(group, &Step::dst);
    grouping_.add(numbers_of(group), [this, group] { return made(group); });
  }

  void side_by_side(const RowGroup& group, std::uint32_t Step::*which) {
    isa::Tensor all = program_.tensors()[group.front().*which];
    const std::int64_t bytes = all.extent_bytes();
    all.name += "~rows";
    all.shape = {all.shape[0], static_cast<std::int64_t>(group.size()),
                 bytes / isa::size_bytes(all.dtype)};
    Grouping::Numbers tiles;
    for (const Step& step : group) tiles.push_back(step.*which);
    grouping_.side_by_side(tiles, std::move(all));
  }

  Grouping::Made made(const RowGroup& group) {
    isa::Inst inst = program_.insts()[group.front().inst];
    const isa::OpSpec& op = isa::spec(inst);
    std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
    const auto iterations = static_cast<std::int64_t>(group.size());
    using Named = std::pair<std::string_view, std::uint32_t>;
    for (const auto& [name, tile] :
         {Named{"dst", group.front().dst}, Named{"data", group.front().data}}) {
      isa::Arg& arg = args.at(static_cast<std::size_t>(isa::param_index(op, name)));
      isa::TensorRef ref = *arg.tensor;
      const std::int64_t columns = ref.columns();
      ref.tensor = grouping_.moves().find(tile)->tile;
      ref.offset = 0;
      const bool flat = inst.op == isa::Op::k_reciprocal || name == "dst";
      ref.pattern = flat ? program_.intern({{1, iterations * columns}})
                         : program_.intern({{columns, iterations}, {1, columns}});
      arg.tensor = program_.add_ref(ref);
    }
    const int axis = isa::param_index(op, "axis");
    if (axis >= 0) args.at(static_cast<std::size_t>(axis)).list = program_.add_list({2});
    inst.engine = isa::Engine::kAny;
    return {inst, std::move(args)};
  }

  isa::Program& program_;
  const isa::Uses& uses_;
  const std::vector<bool>& placed_;
  Grouping grouping_;
};

}  // namespace

PassResult rows(Unit& unit) {
  if (unit.choices.rows == Rows::k_none || !unit.may_group()) return {};
  return group_if_it_fits(unit, [&] {
    const std::vector<bool> placed = unit.final_addresses();
    return RowMerger(unit.program, unit.uses(), placed).run();
  });
}

}  // namespace nkisim::compiler
