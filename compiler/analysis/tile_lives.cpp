#include "compiler/analysis/tile_lives.hpp"

#include <algorithm>

namespace nkisim::compiler {

TileLives::TileLives(const isa::Program& program, int core, const std::vector<bool>& placed)
    : tiles_(program.tensors().size()), tiles_of_(program.insts().size()) {
  std::vector<std::uint32_t> region(tiles_.size(), 0);
  std::vector<bool> counts(tiles_.size(), true);
  std::uint32_t here = 1, i = 0;
  for (const isa::Inst& inst : program.insts()) {
    const std::uint32_t number = i++;
    if (inst.core != core) continue;
    if (isa::spec(inst).control != isa::OpSpec::Control::kNone) ++here;
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      const std::uint32_t t = ref.tensor;
      if (!ref.on_chip() || placed[t]) return;
      if (region[t] == 0) region[t] = here;
      if (region[t] != here) counts[t] = false;
      Tile& tile = tiles_[t];
      if (!tile.users.empty() && tile.users.back() == number) return;
      tile.users.push_back(number);
    });
  }
  const std::int64_t bank = program.machine().psum_bank_bytes();
  for (std::uint32_t t = 0; t < tiles_.size(); ++t) {
    Tile& tile = tiles_[t];
    if (!counts[t]) tile.users.clear();
    const isa::Tensor& tensor = program.tensors()[t];
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
