#include "compiler/passes/share.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "compiler/analysis/room.hpp"
#include "compiler/analysis/uses.hpp"
#include "compiler/analysis/values.hpp"

namespace nkisim::compiler {
namespace {

// Of SBUF, what longer lives may fill: the rest is the scheduler's.
constexpr double kShare = 0.75;
// Distances of at most twice the next smaller one are taken for those of one loop.
constexpr std::uint32_t kSameLoop = 2;

struct SharedTile {
  std::vector<std::uint32_t> writers, readers;  // each once; what writes it too reads it not
  std::uint32_t first = 0, last = 0;
  std::uint32_t left = 0;  // readers that are not dropped
  bool written = false, plain = true;
  [[nodiscard]] bool used() const { return !writers.empty() || !readers.empty(); }
};

// Two tiles of the same content: the later's readers may read the earlier.
struct Repeat {
  std::uint32_t earlier = 0, later = 0;
  std::uint64_t site = 0;  // place in the kernel that fills them
  std::uint32_t gap = 0;   // instructions between their lives
};

class Sharer {
 public:
  Sharer(isa::Program& program, const std::vector<bool>& placed, std::int64_t room)
      : program_(program),
        placed_(placed),
        values_(program, placed),
        tiles_(program.tensors().size()),
        root_(tiles_.size()),
        dropped_(program.insts().size(), false),
        filled_(static_cast<std::size_t>(program.cores()),
                RangeMax(std::max<std::size_t>(program.insts().size(), 1))),
        room_(room) {
    for (std::uint32_t t = 0; t < root_.size(); ++t) root_[t] = t;
    find_uses();
    for (std::uint32_t t = 0; t < tiles_.size(); ++t) {
      if (program.tensors()[t].space != isa::Space::kSbuf || !tiles_[t].used()) continue;
      filled_[program.tensors()[t].core].add(tiles_[t].first, tiles_[t].last + 1, bytes(t));
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

  void find_uses() {
    std::uint32_t i = 0;
    for (const isa::Inst& inst : program_.insts()) {
      std::uint32_t written = static_cast<std::uint32_t>(tiles_.size());
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        if (write) written = ref.tensor;
      });
      isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
        note(ref.tensor, i, write, written == ref.tensor);
      });
      mark_lists_and_indices(inst);
      ++i;
    }
  }

  void note(std::uint32_t t, std::uint32_t i, bool write, bool own) {
    SharedTile& tile = tiles_[t];
    if (!tile.used()) tile.first = i;
    tile.last = i;
    if (write) {
      tile.plain = tile.plain && values_.pure(i) && tile.readers.empty();
      if (tile.writers.empty() || tile.writers.back() != i) tile.writers.push_back(i);
    } else if (!own && (tile.readers.empty() || tile.readers.back() != i)) {
      tile.readers.push_back(i);
      ++tile.left;
    }
  }

  // Uses that cannot be redirected.
  void mark_lists_and_indices(const isa::Inst& inst) {
    for (const isa::Arg& arg : inst.args) {
      if (arg.kind == isa::Arg::Kind::kTensors) {
        for (const isa::TensorRef* ref : *arg.tensors) tiles_[ref->tensor].plain = false;
      }
      if (arg.kind != isa::Arg::Kind::kTensor) continue;
      for (const isa::DynamicOffset* d = arg.tensor->dynamic; d != nullptr; d = d->next) {
        if (d->index != nullptr) tiles_[d->index->tensor].plain = false;
      }
    }
  }

  // Filled by pure instructions, then only read, by instructions that can read another tile.
  [[nodiscard]] bool may_be_shared(std::uint32_t t) const {
    const SharedTile& tile = tiles_[t];
    return program_.tensors()[t].space == isa::Space::kSbuf && !placed_[t] && tile.plain &&
           !tile.writers.empty() && !tile.readers.empty();
  }

  using Contents = std::map<std::uint32_t, std::vector<std::uint32_t>>;  // tiles by what they hold

  // By the length of the chain that makes them, the longest first: its end is shared if it can be.
  [[nodiscard]] std::map<std::uint32_t, Contents, std::greater<>> equal_tiles() const {
    std::map<std::uint32_t, Contents, std::greater<>> equal;
    for (std::uint32_t t = 0; t < tiles_.size(); ++t) {
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
      std::erase_if(tiles, [&](std::uint32_t t) { return tiles_[t].left == 0; });
      std::sort(tiles.begin(), tiles.end(), [&](std::uint32_t a, std::uint32_t b) {
        return tiles_[a].writers.back() < tiles_[b].writers.back();
      });
      for (std::size_t k = 1; k < tiles.size(); ++k) {
        const SharedTile &earlier = tiles_[tiles[k - 1]], &later = tiles_[tiles[k]];
        const std::uint32_t gap = later.first > earlier.last ? later.first - earlier.last : 0;
        const isa::SourceLoc& loc = program_.insts()[later.writers.back()].loc;
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

  // All or none: what a loop needs stays for the loop, or is loaded in each turn.
  void take(std::vector<Repeat> group) {
    std::size_t fit = 0;
    while (fit < group.size() && lengthen(group[fit], 1)) ++fit;
    if (fit < group.size()) {
      while (fit-- > 0) lengthen(group[fit], -1);
      return;
    }
    std::sort(group.begin(), group.end(), [&](const Repeat& a, const Repeat& b) {
      return tiles_[a.later].writers.back() < tiles_[b.later].writers.back();
    });
    for (const Repeat& r : group) merge(r);
  }

  // The earlier tile lives on until the later one would have begun, if there is room; or back.
  bool lengthen(const Repeat& r, int sign) {
    const std::uint32_t from = tiles_[r.earlier].last + 1, to = tiles_[r.later].first;
    if (from >= to) return true;
    RangeMax& filled = filled_[program_.tensors()[r.later].core];
    if (sign > 0 && filled.max(from, to) + bytes(r.later) > room_) return false;
    filled.add(from, to, sign * bytes(r.later));
    return true;
  }

  void merge(const Repeat& r) {
    const std::uint32_t to = root(r.earlier);
    const SharedTile& later = tiles_[r.later];
    if (!redirect(program_, later.readers, r.later, to)) return;
    root_[r.later] = to;
    std::vector<std::uint32_t>& all = tiles_[to].readers;
    all.insert(all.end(), later.readers.begin(), later.readers.end());
    for (const std::uint32_t writer : later.writers) drop(writer);
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
        SharedTile& tile = tiles_[t];
        if (--tile.left > 0 || !removable(t)) continue;
        left.insert(left.end(), tile.writers.begin(), tile.writers.end());
      }
    }
  }

  [[nodiscard]] bool removable(std::uint32_t t) const {
    return program_.tensors()[t].space != isa::Space::kHbm && !placed_[t] && tiles_[t].plain;
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
  Values values_;
  std::vector<SharedTile> tiles_;
  std::vector<std::uint32_t> root_;  // by tile: the one that is read in its place
  std::vector<bool> dropped_;        // by instruction
  std::vector<RangeMax> filled_;     // by core: bytes of SBUF in use, by instruction
  std::int64_t room_;
};

}  // namespace

std::vector<std::uint32_t> share_tiles(isa::Program& program, const std::vector<bool>& placed,
                                       std::int64_t room) {
  return Sharer(program, placed, room).run();
}

bool shares(const Unit& unit) { return unit.choices.share == Share::k_tiles && unit.may_drop(); }

Done share(Unit& unit) {
  if (!shares(unit)) return {};
  const auto sbuf = static_cast<double>(unit.program.machine().sbuf_partition_bytes);
  const std::vector<std::uint32_t> unneeded =
      share_tiles(unit.program, unit.final_addresses(), static_cast<std::int64_t>(kShare * sbuf));
  unit.program.remove(unneeded);
  return {unneeded.size()};
}

}  // namespace nkisim::compiler
