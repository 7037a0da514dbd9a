#include "compiler/passes/transfers.hpp"

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

// What profiles show: the largest transfer, the shortest rows of those that were merged.
constexpr std::int64_t kMostBytes = 512 * 1024, kLeastRow = 256;

// A DMA between HBM and one tile.
struct Transfer {
  std::uint32_t inst = 0;
  const isa::TensorRef *memory = nullptr, *tile = nullptr;
  bool load = false;
};

using TransferGroup = std::vector<Transfer>;

class TransferMerger {
 public:
  TransferMerger(isa::Program& program, const std::vector<bool>& placed)
      : program_(program), placed_(placed), moves_(program) {}

  // How many instructions it saved; nothing, and the program is spoilt, if there is no order.
  std::optional<std::size_t> run() {
    const std::vector<std::vector<Transfer>> sites = transfers_by_site();
    if (sites.empty()) return 0;
    gather_.emplace(program_, placed_);
    for (const std::vector<Transfer>& site : sites) divide(site);
    if (groups_.empty()) return 0;
    Gather::Groups members;
    for (const TransferGroup& group : groups_) {
      members.emplace_back();
      for (const Transfer& t : group) members.back().push_back(t.inst);
    }
    const auto order = gather_->order(members);
    if (!order) return std::nullopt;
    moves_.apply();
    for (const TransferGroup& group : groups_) append(group);
    return put_groups(program_, *order, members);
  }

 private:
  // In the kernel's order, by the lines that make them; those of one line that could be one DMA.
  std::vector<std::vector<Transfer>> transfers_by_site() const {
    using Site = std::tuple<std::uint32_t, std::uint32_t, bool>;
    std::map<Site, std::vector<Transfer>> sites;
    for (std::uint32_t i = 0; i < program_.insts().size(); ++i) {
      const std::optional<Transfer> t = transfer(i);
      if (!t) continue;
      const isa::SourceLoc& loc = program_.insts()[i].loc;
      sites[{loc.kernel_file, loc.kernel_line, t->load}].push_back(*t);
    }
    std::vector<std::vector<Transfer>> found;
    for (auto& [site, all] : sites) {
      for (std::size_t k = 1; k < all.size(); ++k) {
        if (!adjoins(all[k - 1], all[k])) continue;
        found.push_back(std::move(all));
        break;
      }
    }
    std::sort(found.begin(), found.end(),
              [](const auto& a, const auto& b) { return a[0].inst < b[0].inst; });
    return found;
  }

  [[nodiscard]] std::optional<Transfer> transfer(std::uint32_t i) const {
    const isa::Inst& inst = program_.insts()[i];
    if (inst.op != isa::Op::k_dma_copy || !inst.engine_open || inst.pinned() ||
        inst.dma != nullptr || inst.loc.kernel_line == 0) {
      return std::nullopt;
    }
    const isa::OpSpec& op = isa::spec(inst);
    const isa::TensorRef& dst = inst.tensor(isa::param_index(op, "dst"));
    const isa::TensorRef& src = inst.tensor(isa::param_index(op, "src"));
    if (dst.on_chip() == src.on_chip()) return std::nullopt;
    const bool load = dst.on_chip();
    const isa::TensorRef &memory = load ? src : dst, &tile = load ? dst : src;
    const auto& dims = memory.pattern->dims;
    const bool rows = tile.partitions > 1 && dims.size() == 2 && memory.pattern->contiguous &&
                      dims[0].num == tile.partitions;
    // Inputs come as the kernel says.
    const bool own = !load || program_.tensor(memory).written;
    if (!rows || !own || std::min(row_bytes(memory), row_bytes(tile)) < kLeastRow ||
        memory.dynamic != nullptr || tile.dynamic != nullptr || placed_[tile.tensor] ||
        !tile.pattern->contiguous || !moves_.can_move(tile.tensor)) {
      return std::nullopt;
    }
    return Transfer{i, &memory, &tile, load};
  }

  [[nodiscard]] static std::int64_t row_bytes(const isa::TensorRef& ref) {
    return ref.columns() * isa::size_bytes(ref.dtype);
  }

  // Whether b begins in HBM where a ends, and is alike.
  [[nodiscard]] bool adjoins(const Transfer& a, const Transfer& b) const {
    const isa::Inst &x = program_.insts()[a.inst], &y = program_.insts()[b.inst];
    for (std::size_t k = 0; k < x.args.size(); ++k) {
      if (x.args[k].kind != y.args[k].kind) return false;
      if (x.args[k].kind != isa::Arg::Kind::kTensor && x.args[k].integer != y.args[k].integer) {
        return false;
      }
    }
    return a.memory->tensor == b.memory->tensor && a.memory->pattern == b.memory->pattern &&
           a.memory->dtype == b.memory->dtype && a.tile->dtype == b.tile->dtype &&
           a.tile->partition == b.tile->partition && a.tile->partitions == b.tile->partitions &&
           x.core == y.core && b.memory->offset == a.memory->offset + a.memory->bytes();
  }

  // Cuts a site's transfers into groups of neighbours, none of which waits for another.
  void divide(const std::vector<Transfer>& site) {
    TransferGroup group;
    const auto close = [&] {
      if (group.size() > 1) add(group);
      group.clear();
    };
    for (const Transfer& t : site) {
      if (!group.empty() && !continues(group, t)) close();
      group.push_back(t);
    }
    close();
  }

  [[nodiscard]] bool continues(const TransferGroup& group, const Transfer& t) const {
    const auto size = static_cast<std::int64_t>(group.size()) + 1;
    const std::int64_t bytes = std::max(t.memory->bytes(), t.tile->bytes());
    return size * bytes <= kMostBytes && adjoins(group.back(), t) && follows(group, *t.tile) &&
           std::none_of(group.begin(), group.end(),
                        [&](const Transfer& m) { return gather_->reaches(m.inst, t.inst); });
  }

  // Whether the next tile lies, or can be put, beside the group's.
  [[nodiscard]] bool follows(const TransferGroup& group, const isa::TensorRef& next) const {
    const TileMoves::Place first = moves_.place(*group.front().tile), now = moves_.place(next);
    if (first.tile == now.tile) {
      return now.offset == first.offset + static_cast<std::int64_t>(group.size()) * row_bytes(next);
    }
    const auto other = [&](const Transfer& m) { return m.tile->tensor != next.tensor; };
    return moves(*group.front().tile) && moves(next) &&
           std::all_of(group.begin(), group.end(), other);
  }

  // All of a tile that lies where it was.
  [[nodiscard]] bool moves(const isa::TensorRef& ref) const {
    return moves_.find(ref.tensor) == nullptr && moves_.is_whole(ref);
  }

  void add(const TransferGroup& group) {
    const isa::TensorRef& first = *group.front().tile;
    if (moves_.place(*group[1].tile).tile != moves_.place(first).tile) {
      isa::Tensor all = program_.tensor(first);
      all.name += "~" + std::to_string(group.size());
      all.shape = {all.shape[0], static_cast<std::int64_t>(group.size()), first.columns()};
      const std::uint32_t tile = program_.add_tensor(std::move(all));
      std::int64_t offset = 0;
      for (const Transfer& t : group) {
        moves_.move(t.tile->tensor, {tile, offset});
        offset += row_bytes(first);
      }
    }
    groups_.push_back(group);
  }

  void append(const TransferGroup& group) {
    const Transfer& first = group.front();
    isa::Inst inst = program_.insts()[first.inst];
    const auto count = static_cast<std::int64_t>(group.size());
    const isa::Dim rows = first.memory->pattern->dims[0];
    const std::int64_t columns = first.memory->columns();
    isa::TensorRef memory = *first.memory, tile = *moves_.moved(first.tile);
    memory.pattern = program_.intern({rows, {rows.num * columns, count}, {1, columns}});
    tile.pattern = program_.intern({{1, count * columns}});
    std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
    const auto set = [&](std::string_view name, const isa::TensorRef& ref) {
      args.at(static_cast<std::size_t>(isa::param_index(isa::spec(inst), name))).tensor =
          program_.add_ref(ref);
    };
    set(first.load ? "src" : "dst", memory);
    set(first.load ? "dst" : "src", tile);
    inst.engine = isa::Engine::kAny;
    program_.append(inst, args);
  }

  isa::Program& program_;
  const std::vector<bool>& placed_;
  TileMoves moves_;
  std::optional<Gather> gather_;
  std::vector<TransferGroup> groups_;
};

}  // namespace

Done transfers(Unit& unit) {
  isa::Program& program = unit.program;
  if (unit.choices.transfers == Transfers::k_none || !unit.may_group()) return {};
  if (unit.over_capacity || !can_be_placed(unit)) return {0, "the present order does not fit"};
  isa::Program::Version own = program.version();
  const std::vector<bool> placed = unit.final_addresses();
  const auto saved = TransferMerger(program, placed).run();
  if (saved && (*saved == 0 || can_be_placed(unit))) return {*saved};
  program.exchange(own);
  return {0, saved ? "would not fit" : "they wait for one another"};
}

}  // namespace nkisim::compiler
