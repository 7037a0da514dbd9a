#include "compiler/passes/rows.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/analysis/gather.hpp"
#include "compiler/analysis/tile_moves.hpp"
#include "compiler/placement/place.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::size_t kMostRows = 8;          // turns of a loop: the most that a profile shows
constexpr std::int64_t kSmallStatistic = 64;  // bytes per partition of what is reduced

// A step of a statistic: data -> dst, both all of their tiles.
struct Step {
  std::uint32_t inst = 0, data = 0, dst = 0;
};

class RowMerger {
 public:
  RowMerger(isa::Program& program, const std::vector<bool>& placed)
      : program_(program), placed_(placed), writers_(program.tensors().size()), moves_(program) {
    find_writers();
  }

  // How many instructions it saved; nothing, and the program is spoilt, if there is no order.
  std::optional<std::size_t> run() {
    std::vector<std::vector<Step>> sites = steps_by_site();
    if (sites.empty()) return 0;
    gather_.emplace(program_, placed_);
    for (const std::vector<Step>& site : sites) divide(site);
    if (groups_.empty()) return 0;
    Gather::Groups members;
    for (const std::vector<Step>& group : groups_) {
      members.emplace_back();
      for (const Step& step : group) members.back().push_back(step.inst);
    }
    const auto order = gather_->order(members);
    if (!order) return std::nullopt;
    moves_.apply();
    for (const std::vector<Step>& group : groups_) append(group);
    return put_groups(program_, *order, members);
  }

 private:
  void find_writers() {
    std::uint32_t i = 0;
    for (const isa::Inst& inst : program_.insts()) {
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        if (write) writers_[ref.tensor].push_back(i);
      });
      ++i;
    }
  }

  // All of a small tile of SBUF that may be moved.
  [[nodiscard]] bool small(const isa::TensorRef& ref) const {
    return ref.space == isa::Space::kSbuf && !placed_[ref.tensor] && moves_.can_move(ref.tensor) &&
           moves_.is_whole(ref) && program_.tensor(ref).extent_bytes() <= kSmallStatistic;
  }

  std::vector<std::vector<Step>> steps_by_site() {
    using Site = std::tuple<std::uint32_t, std::uint32_t, isa::Op, std::int64_t>;
    std::map<Site, std::vector<Step>> sites;
    for (std::uint32_t i = 0; i < program_.insts().size(); ++i) {
      const isa::Inst& inst = program_.insts()[i];
      const bool reduces = inst.op == isa::Op::k_tensor_reduce;
      if (!reduces && inst.op != isa::Op::k_reciprocal) continue;
      if (!inst.engine_open || inst.pinned() || inst.loc.kernel_line == 0) continue;
      const isa::TensorRef& dst = inst.tensor(isa::param_index(isa::spec(inst), "dst"));
      const isa::TensorRef& data = inst.tensor(isa::param_index(isa::spec(inst), "data"));
      if (!small(dst) || !small(data) || dst.columns() != 1 || dst.tensor == data.tensor ||
          writers_[dst.tensor].size() != 1 || writers_[data.tensor].empty() ||
          writers_[data.tensor].back() > i) {
        continue;
      }
      sites[{inst.loc.kernel_file, inst.loc.kernel_line, inst.op, data.columns()}].push_back(
          {i, data.tensor, dst.tensor});
    }
    std::vector<std::vector<Step>> found;
    for (auto& [site, steps] : sites) {
      if (steps.size() > 1) found.push_back(std::move(steps));
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a[0].inst < b[0].inst; });
    return found;
  }

  // Cuts a site's steps into groups of equal, independent ones.
  void divide(const std::vector<Step>& site) {
    std::vector<Step> group;
    std::size_t most = 0;
    const auto close = [&] {
      if (group.size() > 1) add(group);
      group.clear();
    };
    for (const Step& step : site) {
      if (group.size() == most || !alike(group, step)) close();
      if (group.empty()) most = rows_that_fit(step);
      group.push_back(step);
    }
    close();
  }

  [[nodiscard]] bool alike(const std::vector<Step>& group, const Step& step) const {
    if (group.empty()) return true;
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
    return std::none_of(group.begin(), group.end(),
                        [&](const Step& s) { return gather_->reaches(s.inst, step.inst); });
  }

  // As many as the banks allow in which one turn's products lie.
  [[nodiscard]] std::size_t rows_that_fit(const Step& step) const {
    std::vector<std::uint32_t> seen = {step.data}, banks;
    for (std::size_t k = 0; k < seen.size() && seen.size() < 64; ++k) {
      for (const std::uint32_t writer : writers_[seen[k]]) {
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
  void add(const std::vector<Step>& group) {
    const TileMoves::Place* first = moves_.find(group.front().data);
    for (std::size_t k = 0; k < group.size(); ++k) {
      const TileMoves::Place* at = moves_.find(group[k].data);
      if ((at == nullptr) != (first == nullptr) || moves_.find(group[k].dst) != nullptr) return;
      if (at == nullptr) continue;
      const std::int64_t bytes = program_.tensors()[group[k].data].extent_bytes();
      if (at->tile != first->tile || at->offset != static_cast<std::int64_t>(k) * bytes) return;
    }
    if (first == nullptr) side_by_side(group, &Step::data);
    side_by_side(group, &Step::dst);
    groups_.push_back(group);
  }

  void side_by_side(const std::vector<Step>& group, std::uint32_t Step::*which) {
    isa::Tensor all = program_.tensors()[group.front().*which];
    const std::int64_t bytes = all.extent_bytes();
    all.name += "~rows";
    all.shape = {all.shape[0], static_cast<std::int64_t>(group.size()),
                 bytes / isa::size_bytes(all.dtype)};
    const std::uint32_t tile = program_.add_tensor(std::move(all));
    std::int64_t offset = 0;
    for (const Step& step : group) {
      moves_.move(step.*which, {tile, offset});
      offset += bytes;
    }
  }

  void append(const std::vector<Step>& group) {
    isa::Inst inst = program_.insts()[group.front().inst];
    const isa::OpSpec& op = isa::spec(inst);
    std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
    const auto turns = static_cast<std::int64_t>(group.size());
    using Named = std::pair<std::string_view, std::uint32_t>;
    for (const auto& [name, tile] :
         {Named{"dst", group.front().dst}, Named{"data", group.front().data}}) {
      isa::Arg& arg = args.at(static_cast<std::size_t>(isa::param_index(op, name)));
      isa::TensorRef ref = *arg.tensor;
      const std::int64_t columns = ref.columns();
      ref.tensor = moves_.find(tile)->tile;
      ref.offset = 0;
      const bool flat = inst.op == isa::Op::k_reciprocal || name == "dst";
      ref.pattern = flat ? program_.intern({{1, turns * columns}})
                         : program_.intern({{columns, turns}, {1, columns}});
      arg.tensor = program_.add_ref(ref);
    }
    const int axis = isa::param_index(op, "axis");
    if (axis >= 0) args.at(static_cast<std::size_t>(axis)).list = program_.add_list({2});
    inst.engine = isa::Engine::kAny;
    program_.append(inst, args);
  }

  isa::Program& program_;
  const std::vector<bool>& placed_;
  std::vector<std::vector<std::uint32_t>> writers_;  // by tensor: instructions
  TileMoves moves_;
  std::optional<Gather> gather_;
  std::vector<std::vector<Step>> groups_;
};

}  // namespace

Done rows(Unit& unit) {
  isa::Program& program = unit.program;
  if (unit.choices.rows == Rows::k_none || !unit.may_group()) return {};
  if (!can_be_placed(unit)) return {0, "the program's own order does not fit"};
  isa::Program::Version own = program.version();
  const std::vector<bool> placed = unit.final_addresses();
  const auto saved = RowMerger(program, placed).run();
  if (saved && (*saved == 0 || can_be_placed(unit))) return {*saved};
  program.exchange(own);
  return {0, "would not fit"};
}

}  // namespace nkisim::compiler
