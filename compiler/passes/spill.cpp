// Spills tiles of SBUF to HBM (spill_tiles), by Belady's algorithm with reloads:
//
//   for each instruction in program order:
//     for each tile of SBUF that it uses and that is not resident:
//       evict tiles until it fits: of the eight whose next use is latest, the one with the greatest
//         distance (twice the distance if no store is needed); store it unless HBM has its content
//       a tile that was evicted before gets new storage: load it back, or repeat its loads
//     note what the instruction writes; a tile after its last use is no longer resident
#include "compiler/passes/spill.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "compiler/analysis/remap.hpp"
#include "compiler/analysis/rewrite.hpp"
#include "isa/program/footprint.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::uint32_t kNever = ~std::uint32_t{0};

struct SpillTile {
  std::vector<std::uint32_t> uses;  // instructions, each once
  std::size_t next = 0;             // in `uses`: the first to come
  std::uint32_t last_write = 0;
  std::uint32_t slot = kNever;         // in HBM, with its content if `saved`
  std::vector<std::uint32_t> sources;  // the loads that filled it, if nothing else did
  bool followed = false;               // in SBUF, without an address
  bool resident = false, begun = false;
  bool filled = false;  // writes have covered all of it,
  std::vector<std::pair<std::int64_t, std::int64_t>> covered = {};  // these bytes until then
  bool saved = false, loaded = true;
};

class Spiller {
 public:
  Spiller(isa::Program& program, const std::vector<bool>& placed, const isa::Uses& uses,
          std::int64_t capacity)
      : program_(program),
        capacity_(capacity),
        count_(program.insts().size()),
        remap_(program),
        rewrite_(program),
        tiles_(program.tensors().size()) {
    for (std::uint32_t t = 0; t < tiles_.size(); ++t) {
      const bool sbuf = program.tensors()[t].space == isa::Space::kSbuf;
      tiles_[t].followed = sbuf && !placed[t];
      if (sbuf && placed[t]) capacity_ -= bytes(t);
      if (!tiles_[t].followed) continue;
      tiles_[t].uses = uses.users(t);
      if (!uses.writers(t).empty()) tiles_[t].last_write = uses.writers(t).back();
    }
  }

  std::optional<Spilled> run() {
    for (std::uint32_t i = 0; i < count_; ++i) {
      if (!make_resident(i)) return std::nullopt;
      note(i);
      remap_.apply(i);
    }
    rewrite_.finish();
    return done_;
  }

 private:
  // fn(tile, operand, written) for the operands of an instruction that is as the program had it.
  template <typename Fn>
  void each_named(std::uint32_t i, Fn&& fn) const {
    isa::for_each_tensor(program_.insts()[i],
                         [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
                           if (tiles_[ref.tensor].followed) fn(ref.tensor, ref, write);
                         });
  }
  [[nodiscard]] std::int64_t bytes(std::uint32_t t) const {
    return program_.tensors()[t].extent_bytes();
  }
  [[nodiscard]] std::int64_t all_bytes(std::uint32_t t) const {
    return bytes(t) * program_.tensors()[t].shape[0];
  }

  bool make_resident(std::uint32_t i) {
    needed_.clear();
    each_named(i, [&](std::uint32_t t, const isa::TensorRef&, bool) {
      if (std::find(needed_.begin(), needed_.end(), t) == needed_.end()) needed_.push_back(t);
    });
    for (const std::uint32_t t : needed_) candidates_.erase(rank(t));
    for (const std::uint32_t t : needed_) {
      SpillTile& tile = tiles_[t];
      if (tile.resident) continue;
      while (filled_ + bytes(t) > capacity_) {
        if (!evict(i)) return false;
      }
      filled_ += bytes(t);
      tile.resident = true;
      if (tile.begun) reload(t, i);
      tile.begun = true;
    }
    return true;
  }

  // The next use of a tile, the latest first, and the tile.
  using Rank = std::pair<std::uint64_t, std::uint32_t>;
  [[nodiscard]] Rank rank(std::uint32_t t) const {
    const SpillTile& tile = tiles_[t];
    const std::uint64_t next = tile.next < tile.uses.size() ? tile.uses[tile.next] : count_;
    return {next, t};
  }

  bool evict(std::uint32_t i) {
    constexpr int kLooked = 8;  // of the latest
    auto best = candidates_.end();
    std::uint64_t latest = 0;
    int looked = 0;
    for (auto c = candidates_.rbegin(); c != candidates_.rend() && looked < kLooked; ++c) {
      const SpillTile& tile = tiles_[c->second];
      if (!tile.filled && tile.last_write >= i) continue;
      ++looked;
      const std::uint64_t distance = (c->first - i) * (needs_store(tile) ? 1 : 2);
      if (best != candidates_.end() && distance <= latest) continue;
      latest = distance;
      best = std::prev(c.base());
    }
    if (best == candidates_.end()) return false;
    const std::uint32_t t = best->second;
    candidates_.erase(best);
    if (needs_store(tiles_[t])) save(t, i);
    tiles_[t].resident = false;
    filled_ -= bytes(t);
    return true;
  }

  [[nodiscard]] static bool needs_store(const SpillTile& tile) {
    return !tile.saved && !can_load_again(tile);
  }
  [[nodiscard]] static bool can_load_again(const SpillTile& tile) {
    return tile.loaded && !tile.sources.empty();
  }

  void save(std::uint32_t t, std::uint32_t i) {
    SpillTile& tile = tiles_[t];
    if (tile.slot == kNever) {
      const isa::Tensor& own = program_.tensors()[t];
      tile.slot = program_.add_tensor({.name = own.name + "~spill",
                                       .space = isa::Space::kHbm,
                                       .dtype = own.dtype,
                                       .spill = true,
                                       .shape = own.shape});
    }
    add_copy(tile.slot, remap_(t), i);
    tile.saved = true;
    done_.saved += all_bytes(t);
  }

  void reload(std::uint32_t t, std::uint32_t i) {
    SpillTile& tile = tiles_[t];
    isa::Tensor copy = program_.tensors()[t];
    copy.name += "~reload" + std::to_string(done_.transfers);
    remap_.set(t, program_.add_tensor(std::move(copy)));
    if (tile.saved) {
      add_copy(remap_(t), tile.slot, i);
      done_.reloaded += all_bytes(t);
      return;
    }
    for (const std::uint32_t source : tile.sources) {
      add(program_.insts()[source], again(program_.insts()[source], remap_(t)), i);
    }
    done_.again += all_bytes(t);
  }

  // The arguments of a load that fills another tensor.
  std::vector<isa::Arg> again(const isa::Inst& load, std::uint32_t tensor) {
    std::vector<isa::Arg> args(load.args.begin(), load.args.end());
    isa::Arg& dst = args.at(static_cast<std::size_t>(isa::param_index(isa::spec(load), "dst")));
    isa::TensorRef ref = *dst.tensor;
    ref.tensor = tensor;
    dst.tensor = program_.add_ref(ref);
    return args;
  }

  void add_copy(std::uint32_t to, std::uint32_t from, std::uint32_t i) {
    isa::Inst move;
    move.op = isa::Op::k_dma_copy;
    move.core = program_.insts()[i].core;
    move.loc = program_.insts()[i].loc;
    move.engine_open = true;
    add(move,
        tensor_arguments(move.op, {{"dst", program_.whole(to)}, {"src", program_.whole(from)}}), i);
  }

  void add(isa::Inst inst, const std::vector<isa::Arg>& args, std::uint32_t i) {
    if (inst.engine_open) inst.engine = isa::Engine::kAny;
    inst.ordering = 0;  // a repeated load is not the one that others wait for
    rewrite_.put(i, inst, args);
    ++done_.transfers;
  }

  // Updates the state of each tile after the instruction, and the tiles that may leave SBUF.
  void note(std::uint32_t i) {
    const bool load = loads_unwritten(program_.insts()[i]);
    each_named(i, [&](std::uint32_t t, const isa::TensorRef& ref, bool write) {
      SpillTile& tile = tiles_[t];
      if (!write) return;
      const auto [first, last] = isa::reached_bytes(ref, program_);
      const bool whole = last - first == bytes(t);
      tile.saved = false;
      cover(tile, first, last, bytes(t));
      if (whole) tile.sources.clear();
      if (whole) tile.loaded = true;
      tile.loaded &= load;
      if (load) tile.sources.push_back(i);
    });
    for (const std::uint32_t t : needed_) {
      SpillTile& tile = tiles_[t];
      if (++tile.next < tile.uses.size()) {
        candidates_.insert(rank(t));
      } else {
        tile.resident = false;
        filled_ -= bytes(t);
      }
    }
  }

  // Fills its tile with what stays in memory as it is.
  [[nodiscard]] bool loads_unwritten(const isa::Inst& inst) const {
    if (inst.op != isa::Op::k_dma_copy || inst.sync != nullptr) return false;
    bool same = true, from_hbm = false;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
      same &= ref.dynamic == nullptr;
      if (write) return;
      from_hbm = !ref.on_chip();
      same &= !program_.tensor(ref).written;
    });
    return same && from_hbm;
  }

  static void cover(SpillTile& tile, std::int64_t first, std::int64_t last, std::int64_t all) {
    if (tile.filled || first == last) return;
    tile.covered.emplace_back(first, last);
    std::sort(tile.covered.begin(), tile.covered.end());
    std::int64_t reached = 0;
    for (const auto& [from, to] : tile.covered) {
      if (from > reached) return;
      reached = std::max(reached, to);
    }
    tile.filled = reached == all;
    if (tile.filled) tile.covered.clear();
  }

  isa::Program& program_;
  std::int64_t capacity_, filled_ = 0;
  std::size_t count_;
  Remap remap_;
  Rewrite rewrite_;
  std::vector<SpillTile> tiles_;       // of the program as it was
  std::vector<std::uint32_t> needed_;  // tiles of the instruction at hand
  std::set<Rank> candidates_;  // resident tiles that it does not use, and when they are used
  Spilled done_;
};

}  // namespace

std::optional<Spilled> spill_tiles(isa::Program& program, const std::vector<bool>& placed,
                                   const isa::Uses& uses, std::int64_t capacity) {
  return Spiller(program, placed, uses, capacity).run();
}

}  // namespace nkisim::compiler
