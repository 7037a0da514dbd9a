// Tracks tile lifetimes while an instruction order is built: which instruction begins or ends one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isa/program/uses.hpp"

namespace nkisim::compiler {

/// Bytes per partition; of PSUM in whole banks.
struct OnChipBytes {
  std::int64_t sbuf = 0, psum = 0;
  [[nodiscard]] std::int64_t sum() const { return sbuf + psum; }
};

/// Follows one core's tiles. A tile that lives through a loop, or whose address is final, counts
/// nothing.
class TileLives {
 public:
  TileLives(const isa::Program& program, int core, const std::vector<bool>& placed,
            const isa::Uses& uses);
  /// The bytes that instruction `i` of the program would begin, and would end, if it were executed
  /// now.
  [[nodiscard]] OnChipBytes begins(std::uint32_t i) const;
  [[nodiscard]] OnChipBytes ends(std::uint32_t i) const;
  /// The same if the program's order is kept.
  [[nodiscard]] OnChipBytes begins_in_order(std::uint32_t i) const;
  [[nodiscard]] OnChipBytes ends_in_order(std::uint32_t i) const;
  /// A tile that an instruction uses.
  struct Use {
    std::uint32_t tile;
    std::int64_t sbuf;                            // its bytes, 0 in PSUM
    std::span<const std::uint32_t> instructions;  // all that use it
  };
  /// The tiles of instruction `i`, for each of which fn(Use) is called.
  template <typename Fn>
  void each_use(std::uint32_t i, Fn&& fn) const {
    for (const std::uint32_t t : tiles_of(i)) fn(Use{t, tiles_[t].bytes.sbuf, users(tiles_[t])});
  }
  /// Bytes of PSUM whose lives have begun and not ended.
  [[nodiscard]] std::int64_t psum() const { return psum_; }
  /// Executes it, and calls changed(j) for the instructions whose begins or ends that changed.
  template <typename Fn>
  void execute(std::uint32_t i, Fn&& changed) {
    psum_ += begins(i).psum - ends(i).psum;
    for (const std::uint32_t t : tiles_of(i)) {
      Tile& tile = tiles_[t];
      if (!tile.born) {
        tile.born = true;
        for (const std::uint32_t user : users(tile)) changed(user);
      }
      --tile.left;
      tile.sum -= i;
      if (tile.left == 1) changed(static_cast<std::uint32_t>(tile.sum));
    }
  }

 private:
  struct Tile {
    OnChipBytes bytes;
    std::uint32_t first_user = 0, user_count = 0;  // in users_
    std::uint32_t left = 0;                        // users to come,
    std::uint64_t sum = 0;  // and their sum: the last one's number when one is left
    bool born = false;
  };
  void find_tiles(const isa::Program& program, int core, const std::vector<bool>& placed,
                  const isa::Uses& uses);
  void find_tiles_of(std::size_t instructions);
  [[nodiscard]] std::span<const std::uint32_t> users(const Tile& tile) const {
    return std::span(users_).subspan(tile.first_user, tile.user_count);
  }
  [[nodiscard]] std::span<const std::uint32_t> tiles_of(std::uint32_t i) const {
    return std::span(tiles_of_).subspan(begin_of_[i], begin_of_[i + 1] - begin_of_[i]);
  }
  template <typename Counts>
  [[nodiscard]] OnChipBytes bytes(std::uint32_t i, Counts&& counts) const;
  std::vector<Tile> tiles_;
  std::vector<std::uint32_t> users_;     // instructions, each once, tile by tile
  std::vector<std::uint32_t> tiles_of_;  // instruction by instruction
  std::vector<std::uint32_t> begin_of_;  // where in it an instruction's tiles begin
  std::int64_t psum_ = 0;
};

}  // namespace nkisim::compiler
