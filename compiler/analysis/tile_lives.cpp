// Finds the tiles whose lifetime an instruction begins or ends, and their bytes.
#include "compiler/analysis/tile_lives.hpp"

#include <algorithm>
#include <utility>

namespace nkisim::compiler {

TileLives::TileLives(const isa::Program& program, int core, const std::vector<bool>& placed,
                     const isa::Uses& uses)
    : tiles_(program.tensors().size()) {
  find_tiles(program, core, placed, uses);
  find_tiles_of(program.insts().size());
}

void TileLives::find_tiles(const isa::Program& program, int core, const std::vector<bool>& placed,
                           const isa::Uses& uses) {
  const std::vector<std::size_t>& control = program.control_flow();
  const std::int64_t bank = program.machine().psum_bank_bytes();
  for (std::uint32_t t = 0; t < tiles_.size(); ++t) {
    Tile& tile = tiles_[t];
    const isa::Tensor& tensor = program.tensors()[t];
    if (tensor.space == isa::Space::kHbm || placed[t] || tensor.core != core || !uses.any(t)) {
      continue;
    }
    // Through a loop or branch of its core.
    const bool through =
        std::any_of(std::upper_bound(control.begin(), control.end(), uses.first(t)),
                    std::upper_bound(control.begin(), control.end(), uses.last(t)),
                    [&](std::size_t i) { return program.insts()[i].core == core; });
    if (through) continue;
    tile.first_user = static_cast<std::uint32_t>(users_.size());
    uses.add_users(t, users_);
    tile.user_count = static_cast<std::uint32_t>(users_.size()) - tile.first_user;
    if (tensor.space == isa::Space::kPsum) {
      tile.bytes.psum = (uses.operands().bytes(t) + bank - 1) / bank * bank;
    } else {
      tile.bytes.sbuf = uses.operands().bytes(t);
    }
    tile.left = tile.user_count;
    for (const std::uint32_t user : users(tile)) tile.sum += user;
  }
}

void TileLives::find_tiles_of(std::size_t instructions) {
  begin_of_.assign(instructions + 1, 0);
  for (const std::uint32_t user : users_) ++begin_of_[user];
  std::uint32_t begin = 0;
  for (std::uint32_t& count : begin_of_) begin += std::exchange(count, begin);
  tiles_of_.resize(users_.size());
  for (std::uint32_t t = 0; t < tiles_.size(); ++t) {
    for (const std::uint32_t user : users(tiles_[t])) tiles_of_[begin_of_[user]++] = t;
  }
  std::copy_backward(begin_of_.begin(), begin_of_.end() - 1, begin_of_.end());
  begin_of_[0] = 0;
}

template <typename Counts>
OnChipBytes TileLives::bytes(std::uint32_t i, Counts&& counts) const {
  OnChipBytes sum;
  for (const std::uint32_t t : tiles_of(i)) {
    if (!counts(tiles_[t])) continue;
    sum.sbuf += tiles_[t].bytes.sbuf;
    sum.psum += tiles_[t].bytes.psum;
  }
  return sum;
}

OnChipBytes TileLives::begins(std::uint32_t i) const {
  return bytes(i, [](const Tile& tile) { return !tile.born; });
}

OnChipBytes TileLives::ends(std::uint32_t i) const {
  return bytes(i, [](const Tile& tile) { return tile.left == 1; });
}

OnChipBytes TileLives::begins_in_order(std::uint32_t i) const {
  return bytes(i, [&](const Tile& tile) { return users_[tile.first_user] == i; });
}

OnChipBytes TileLives::ends_in_order(std::uint32_t i) const {
  return bytes(
      i, [&](const Tile& tile) { return users_[tile.first_user + tile.user_count - 1] == i; });
}

}  // namespace nkisim::compiler
