// Removes tiles that hold the same as another tile (pass `share`), by this algorithm:
//
//   group SBUF tiles by the number of the value they hold, the longest chains of instructions first
//   for each group: pair each tile that is still read with the equal tile before it
//   cut the pairs into loops (one place in the kernel, similar distances), the shortest first
//   for each loop: lengthen the lives of the earlier tiles as far as the budget allows
//     (`all_of_loop`: all or none)
//     let the readers of the later tile read the earlier one
//     drop what filled the later tile, and then what only that needed
#include "compiler/passes/deduplicate_tiles.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "compiler/analysis/redirect.hpp"
#include "compiler/analysis/sbuf_budget.hpp"
#include "compiler/passes/repeated_loads.hpp"

namespace nkisim::compiler {
namespace {

// Distances of at most twice the next smaller one are taken for those of one loop.
constexpr std::uint32_t kSameLoop = 2;

// Programs with more products than this are not kept in parts: the chip does so with up to 6,144
// (NKIBench `bmm`) and not with 8,192 or 40,960 (a 4096^3 matmul, NKIBench `matmul`); in between
// assumed.
constexpr std::ptrdiff_t kManyProducts = 7168;

// Bytes of a partition that repeated loads of the new API may keep: 60 KiB are kept (240 tiles of
// 256 bytes in prefill attention), 128 KiB not (2048^3 bf16 products, 1,365 us); in between
// assumed.
constexpr std::int64_t kMostKept = std::int64_t{64} * 1024;

// Two tiles of the same content: the later's readers may read the earlier.
struct Repeat {
  std::uint32_t earlier = 0, later = 0;
  std::uint64_t site = 0;  // place in the kernel that fills them
  std::uint32_t gap = 0;   // instructions between their lives
};

class Sharer {
 public:
  Sharer(isa::Program& program, const std::vector<bool>& placed, isa::Uses uses,
         const Values& values, std::int64_t budget, bool all_of_loop)
      : program_(program),
        placed_(placed),
        uses_(std::move(uses)),
        values_(values),
        plain_(program.tensors().size()),
        left_(plain_.size()),
        root_(plain_.size()),
        dropped_(program.insts().size(), false),
        filled_(static_cast<std::size_t>(program.cores()),
                RangeMax(std::max<std::size_t>(program.insts().size(), 1))),
        budget_(budget),
        all_of_loop_(all_of_loop) {
    for (std::uint32_t t = 0; t < root_.size(); ++t) {
      root_[t] = t;
      plain_[t] = plain(t);
      left_[t] = static_cast<std::uint32_t>(uses_.readers(t).size());
      if (program.tensors()[t].space != isa::Space::kSbuf || !uses_.any(t)) continue;
      filled_[program.tensors()[t].core].add(uses_.first(t), uses_.last(t) + 1, bytes(t));
    }
  }

  std::vector<std::uint32_t> run() {
    for (const auto& [depth, contents] : equal_tiles()) {
      for (const std::vector<Repeat>& group : by_loop(repeats(contents))) take(group);
    }
    std::vector<std::uint32_t> unneeded;
    for (std::uint32_t i = 0; i < dropped_.size(); ++i) {
      if (dropped_[i]) unneeded.push_back(i);
    }
    return unneeded;
  }

 private:
  [[nodiscard]] std::int64_t bytes(std::uint32_t t) const {
    return program_.tensors()[t].extent_bytes();
  }
  [[nodiscard]] std::uint32_t last_writer(std::uint32_t t) const { return uses_.writers(t).back(); }

  // Filled by pure instructions, then only read, by instructions that can read another tile.
  [[nodiscard]] bool plain(std::uint32_t t) const {
    const isa::Uses::Numbers writers = uses_.writers(t), readers = uses_.readers(t);
    return uses_.direct(t) &&
           (writers.empty() || readers.empty() || writers.back() < readers.front()) &&
           std::all_of(writers.begin(), writers.end(),
                       [this](std::uint32_t i) { return values_.pure(i); });
  }

  [[nodiscard]] bool may_be_shared(std::uint32_t t) const {
    return program_.tensors()[t].space == isa::Space::kSbuf && !placed_[t] && plain_[t] &&
           !uses_.writers(t).empty() && !uses_.readers(t).empty();
  }

  using Contents = std::map<std::uint32_t, std::vector<std::uint32_t>>;  // tiles by what they hold

  // By the length of the chain that makes them, the longest first: its end is shared if it can be.
  [[nodiscard]] std::map<std::uint32_t, Contents, std::greater<>> equal_tiles() const {
    std::map<std::uint32_t, Contents, std::greater<>> equal;
    for (std::uint32_t t = 0; t < root_.size(); ++t) {
      if (!may_be_shared(t)) continue;
      const Values::Value& value = values_.last(t);
      equal[value.depth][value.number].push_back(t);
    }
    return equal;
  }

  // Every tile that somebody reads still, with the one of the same content before it.
  [[nodiscard]] std::vector<Repeat> repeats(const Contents& contents) const {
    std::vector<Repeat> found;
    for (const auto& [value, all] : contents) {
      std::vector<std::uint32_t> tiles = all;
      std::erase_if(tiles, [&](std::uint32_t t) { return left_[t] == 0; });
      std::sort(tiles.begin(), tiles.end(),
                [&](std::uint32_t a, std::uint32_t b) { return last_writer(a) < last_writer(b); });
      for (std::size_t k = 1; k < tiles.size(); ++k) {
        const std::uint32_t last = uses_.last(tiles[k - 1]), next = uses_.first(tiles[k]);
        const std::uint32_t gap = next > last ? next - last : 0;
        const isa::SourceLoc& loc = program_.insts()[last_writer(tiles[k])].loc;
        const std::uint64_t site = std::uint64_t{loc.kernel_file} << 32U | loc.kernel_line;
        found.push_back({tiles[k - 1], tiles[k], site, gap});
      }
    }
    return found;
  }

  // Repeats of one place in the kernel whose distances are alike, which are one loop's; those that
  // come soonest first.
  [[nodiscard]] static std::vector<std::vector<Repeat>> by_loop(std::vector<Repeat> all) {
    std::sort(all.begin(), all.end(), [](const Repeat& a, const Repeat& b) {
      return std::tie(a.site, a.gap, a.later) < std::tie(b.site, b.gap, b.later);
    });
    std::vector<std::vector<Repeat>> groups;
    for (const Repeat& r : all) {
      const Repeat* last = groups.empty() ? nullptr : &groups.back().back();
      if (last == nullptr || last->site != r.site || r.gap > kSameLoop * last->gap + kSameLoop) {
        groups.emplace_back();
      }
      groups.back().push_back(r);
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a[0].gap < b[0].gap; });
    return groups;
  }

  // A loop's tiles stay for the loop, as far as there is budget, or are loaded in each iteration.
  void take(std::vector<Repeat> group) {
    std::vector<Repeat> fit;
    for (const Repeat& r : group) {
      if (lengthen(r, 1)) {
        fit.push_back(r);
      } else if (all_of_loop_) {
        for (const Repeat& taken : fit) lengthen(taken, -1);
        return;
      }
    }
    group = std::move(fit);
    std::sort(group.begin(), group.end(), [&](const Repeat& a, const Repeat& b) {
      return last_writer(a.later) < last_writer(b.later);
    });
    for (const Repeat& r : group) merge(r);
  }

  // The earlier tile lives on until the later one would have begun, if there is budget; or back.
  bool lengthen(const Repeat& r, int sign) {
    const std::uint32_t from = uses_.last(r.earlier) + 1, to = uses_.first(r.later);
    if (from >= to) return true;
    RangeMax& filled = filled_[program_.tensors()[r.later].core];
    if (sign > 0 && filled.max(from, to) + bytes(r.later) > budget_) return false;
    filled.add(from, to, sign * bytes(r.later));
    return true;
  }

  void merge(const Repeat& r) {
    const std::uint32_t to = root(r.earlier);
    if (!redirect(program_, uses_, r.later, to)) return;
    root_[r.later] = to;
    left_[to] += left_[r.later];
    for (const std::uint32_t writer : uses_.writers(r.later)) drop(writer);
  }

  // With what made its operands, if nothing else reads them.
  void drop(std::uint32_t first) {
    std::vector<std::uint32_t> left = {first};
    while (!left.empty()) {
      const std::uint32_t i = left.back();
      left.pop_back();
      if (dropped_[i]) continue;
      dropped_[i] = true;
      for (const std::uint32_t t : operands(i)) {
        if (--left_[t] > 0 || !removable(t)) continue;
        const isa::Uses::Numbers writers = uses_.writers(t);
        left.insert(left.end(), writers.begin(), writers.end());
      }
    }
  }

  [[nodiscard]] bool removable(std::uint32_t t) const {
    return program_.tensors()[t].space != isa::Space::kHbm && !placed_[t] && plain_[t];
  }

  // On-chip tensors that it reads and does not write, each once.
  [[nodiscard]] std::vector<std::uint32_t> operands(std::uint32_t i) const {
    std::vector<std::uint32_t> read, written;
    isa::for_each_tensor(program_.insts()[i],
                         [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
                           if (ref.on_chip()) (write ? written : read).push_back(ref.tensor);
                         });
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    std::erase_if(read, [&](std::uint32_t t) {
      return std::find(written.begin(), written.end(), t) != written.end();
    });
    return read;
  }

  std::uint32_t root(std::uint32_t t) {
    while (root_[t] != t) t = root_[t] = root_[root_[t]];
    return t;
  }

  isa::Program& program_;
  const std::vector<bool>& placed_;
  isa::Uses uses_;
  const Values& values_;
  std::vector<bool> plain_;          // by tile, as the program was
  std::vector<std::uint32_t> left_;  // by tile: readers that are not dropped
  std::vector<std::uint32_t> root_;  // by tile: the one that is read in its place
  std::vector<bool> dropped_;        // by instruction
  std::vector<RangeMax> filled_;     // by core: bytes of SBUF in use, by instruction
  std::int64_t budget_;
  bool all_of_loop_;
};

}  // namespace

std::vector<std::uint32_t> share_tiles(isa::Program& program, const std::vector<bool>& placed,
                                       const isa::Uses& uses, const Values& values,
                                       std::int64_t budget, bool all_of_loop) {
  return Sharer(program, placed, uses, values, budget, all_of_loop).run();
}

bool shares(const Unit& unit) {
  const Share choice = unit.choices.share;
  return choice != Share::k_none && choice != Share::k_loads && unit.may_drop();
}

PassResult share(Unit& unit) {
  if (unit.choices.share == Share::k_loads && unit.may_drop()) {
    const std::vector<std::uint32_t> repeated =
        share_loads(unit.program, unit.final_addresses(), unit.uses(), unit.values(),
                    budget_for_longer_lifetimes(unit.program.machine()), kMostKept);
    unit.program.remove(repeated);
    return {repeated.size()};
  }
  if (!shares(unit)) return {};
  const auto& insts = unit.program.insts();
  const std::ptrdiff_t products =
      std::count_if(insts.begin(), insts.end(),
                    [](const isa::Inst& inst) { return inst.op == isa::Op::k_nc_matmul; });
  const std::vector<std::uint32_t> unneeded =
      share_tiles(unit.program, unit.final_addresses(), unit.uses(), unit.values(),
                  budget_for_longer_lifetimes(unit.program.machine()),
                  unit.choices.share == Share::k_tiles || products > kManyProducts);
  unit.cached_values.forget();  // no later pass asks for them
  unit.program.remove(unneeded);
  return {unneeded.size()};
}

}  // namespace nkisim::compiler
