// Merges DMAs of neighbouring rows into one (pass `transfers`), by this algorithm:
//
//   collect DMAs of whole rows between HBM and one tile, by line of the kernel and direction
//     (loads only of what the kernel has stored)
//   cut each list into groups: neighbours in HBM, up to 512 KiB, none waits for another,
//     tiles that lie or can lie side by side
//   for each group: place the tiles side by side; one DMA does all of the group
//   order the program again: each instruction as soon as its operands are there, the oldest first
//   undo everything if the groups wait for one another or the tiles no longer fit
#include "compiler/passes/transfers.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/analysis/grouping.hpp"
#include "isa/program/footprint.hpp"

namespace nkisim::compiler {
namespace {

// The largest transfer and the shortest rows of merged ones in profiles.
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
  TransferMerger(isa::Program& program, const isa::Uses& uses, const std::vector<bool>& placed)
      : program_(program), placed_(placed), grouping_(program, uses, placed) {}

  // Returns the number of instructions saved. Nothing if there is no order; the program is then
  // spoilt.
  std::optional<std::size_t> run() {
    const std::vector<TransferGroup> sites = transfers_by_site();
    if (sites.empty()) return 0;
    grouping_.find_dependences();
    for (const TransferGroup& site : sites) {
      groups_of(
          site, [this](const auto& group, const Transfer& t) { return continues(group, t); },
          [this](const TransferGroup& group) { add(group); });
    }
    return grouping_.finish_when_ready();
  }

 private:
  // In the kernel's order, by the lines that make them; those of one line that could be one DMA.
  std::vector<TransferGroup> transfers_by_site() const {
    using Site = std::tuple<std::uint32_t, std::uint32_t, bool>;
    auto sites = sites_of<Site, Transfer>(
        program_, [this](std::uint32_t i) -> std::optional<std::pair<Site, Transfer>> {
          const std::optional<Transfer> t = transfer(i);
          if (!t) return std::nullopt;
          const isa::SourceLoc& loc = program_.insts()[i].loc;
          return std::pair{Site{loc.kernel_file, loc.kernel_line, t->load}, *t};
        });
    std::erase_if(sites, [this](const TransferGroup& site) {
      return std::adjacent_find(site.begin(), site.end(), [this](const auto& a, const auto& b) {
               return adjoins(a, b);
             }) == site.end();
    });
    return sites;
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
        !tile.pattern->contiguous || !grouping_.moves().can_move(tile.tensor)) {
      return std::nullopt;
    }
    return Transfer{i, &memory, &tile, load};
  }

  [[nodiscard]] static std::int64_t row_bytes(const isa::TensorRef& ref) {
    return ref.columns() * isa::size_bytes(ref.dtype);
  }

  // True if b begins in HBM where a ends, and is alike.
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

  // Neighbours, none of which waits for another.
  [[nodiscard]] bool continues(const TransferGroup& group, const Transfer& t) const {
    const auto size = static_cast<std::int64_t>(group.size()) + 1;
    const std::int64_t bytes = std::max(t.memory->bytes(), t.tile->bytes());
    return size * bytes <= kMostBytes && adjoins(group.back(), t) && follows(group, *t.tile) &&
           !grouping_.waits(group, t.inst);
  }

  // True if the next tile lies, or can be put, next to the group's.
  [[nodiscard]] bool follows(const TransferGroup& group, const isa::TensorRef& next) const {
    const TileMoves::Place first = grouping_.moves().place(*group.front().tile),
                           now = grouping_.moves().place(next);
    if (first.tile == now.tile) {
      return now.offset == first.offset + static_cast<std::int64_t>(group.size()) * row_bytes(next);
    }
    const auto other = [&](const Transfer& m) { return m.tile->tensor != next.tensor; };
    return moves(*group.front().tile) && moves(next) &&
           std::all_of(group.begin(), group.end(), other);
  }

  // All of a tile that lies where it was.
  [[nodiscard]] bool moves(const isa::TensorRef& ref) const {
    return grouping_.moves().find(ref.tensor) == nullptr && isa::is_whole(ref, program_);
  }

  void add(const TransferGroup& group) {
    const isa::TensorRef& first = *group.front().tile;
    if (grouping_.moves().place(*group[1].tile).tile != grouping_.moves().place(first).tile) {
      isa::Tensor all = program_.tensor(first);
      all.name += "~" + std::to_string(group.size());
      all.shape = {all.shape[0], static_cast<std::int64_t>(group.size()), first.columns()};
      Grouping::Numbers tiles;
      for (const Transfer& t : group) tiles.push_back(t.tile->tensor);
      grouping_.side_by_side(tiles, std::move(all));
    }
    grouping_.add(numbers_of(group), [this, group] { return made(group); });
  }

  Grouping::Made made(const TransferGroup& group) {
    const Transfer& first = group.front();
    isa::Inst inst = program_.insts()[first.inst];
    const auto count = static_cast<std::int64_t>(group.size());
    const isa::Dim rows = first.memory->pattern->dims[0];
    const std::int64_t columns = first.memory->columns();
    isa::TensorRef memory = *first.memory, tile = *grouping_.moves().moved(first.tile);
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
    return {inst, std::move(args)};
  }

  isa::Program& program_;
  const std::vector<bool>& placed_;
  Grouping grouping_;
};

}  // namespace

PassResult transfers(Unit& unit) {
  if (unit.choices.transfers == Transfers::k_none || !unit.may_group()) return {};
  if (unit.over_capacity) return {0, "the present order does not fit"};
  return group_if_it_fits(unit, [&] {
    const std::vector<bool> placed = unit.final_addresses();
    return TransferMerger(unit.program, unit.uses(), placed).run();
  });
}

}  // namespace nkisim::compiler
