#include "compiler/analysis/tile_lives.hpp"

#include <algorithm>

namespace nkisim::compiler {

TileLives::TileLives(const isa::Program& program, int core, const std::vector<bool>& placed,
                     const isa::Uses& uses)
    : tiles_(program.tensors().size()), tiles_of_(program.insts().size()) {
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
    tile.users = uses.users(t);
    if (tensor.space == isa::Space::kPsum) {
      tile.bytes.psum = (tensor.extent_bytes() + bank - 1) / bank * bank;
    } else {
      tile.bytes.sbuf = tensor.extent_bytes();
    }
    tile.left = static_cast<std::uint32_t>(tile.users.size());
    for (const std::uint32_t user : tile.users) {
      tile.sum += user;
      tiles_of_[user].push_back(t);
    }
  }
}

template <typename Counts>
OnChipBytes TileLives::bytes(std::uint32_t i, Counts&& counts) const {
  OnChipBytes sum;
  for (const std::uint32_t t : tiles_of_[i]) {
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

}  // namespace nkisim::compiler
