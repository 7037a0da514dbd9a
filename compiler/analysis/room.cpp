#include "compiler/analysis/room.hpp"

#include <algorithm>

namespace nkisim::compiler {

RangeMax::RangeMax(std::size_t size) {
  while (size_ < size) size_ *= 2;
  highest_.assign(2 * size_, 0);
  added_.assign(2 * size_, 0);
}

// From the leaves up: at every height at most one node at each end of the range, then their
// parents.
void RangeMax::add(std::size_t from, std::size_t to, std::int64_t value) {
  if (from >= to) return;
  const auto change = [&](std::size_t node) {
    highest_[node] += value;
    added_[node] += value;
  };
  const std::size_t first = from + size_, last = to - 1 + size_;
  for (std::size_t l = first, r = last + 1; l < r; l /= 2, r /= 2) {
    if (l % 2 == 1) change(l++);
    if (r % 2 == 1) change(--r);
  }
  const auto refresh = [&](std::size_t node) {
    highest_[node] = added_[node] + std::max(highest_[2 * node], highest_[2 * node + 1]);
  };
  for (std::size_t l = first / 2, r = last / 2; l > 0; l /= 2, r /= 2) {
    refresh(l);
    if (r != l) refresh(r);
  }
}

std::int64_t RangeMax::max(std::size_t from, std::size_t to) const {
  if (from >= to) return 0;
  std::size_t l = from + size_, r = to - 1 + size_;
  std::int64_t left = highest_[l], right = highest_[r];  // of what of the range lies below them
  for (; l / 2 != r / 2; l /= 2, r /= 2) {               // to the children of one node
    if (l % 2 == 0) left = std::max(left, highest_[l + 1]);
    if (r % 2 == 1) right = std::max(right, highest_[r - 1]);
    left += added_[l / 2];
    right += added_[r / 2];
  }
  std::int64_t top = std::max(left, right);
  for (std::size_t node = l / 2; node > 0; node /= 2) top += added_[node];
  return top;
}

void PrefixSum::add(std::size_t at, std::int64_t value) {
  for (std::size_t i = at + 1; i < sums_.size(); i += i & (~i + 1)) sums_[i] += value;
}

std::int64_t PrefixSum::before(std::size_t end) const {
  std::int64_t sum = 0;
  for (std::size_t i = end; i > 0; i -= i & (~i + 1)) sum += sums_[i];
  return sum;
}

namespace {

// What a tile takes of every partition; packed, on average.
std::int64_t bytes_of(const isa::Tensor& tensor, const isa::Machine& machine, bool packed) {
  const std::int64_t bytes = tensor.extent_bytes();
  if (tensor.space == isa::Space::kPsum) {
    const std::int64_t bank = machine.psum_bank_bytes();
    return (bytes + bank - 1) / bank * bank;
  }
  constexpr std::int64_t kQuadrant = 32, kQuadrants = 4;
  const std::int64_t quadrants = (tensor.shape[0] + kQuadrant - 1) / kQuadrant;
  const std::int64_t taken = !packed || quadrants > 2 ? kQuadrants : quadrants;
  return bytes * taken / kQuadrants;
}

}  // namespace

std::int64_t room_for_longer_lives(const isa::Machine& machine) {
  return machine.sbuf_partition_bytes / 4 * 3;
}

Room::Room(const isa::Program& program, int core, const std::vector<bool>& placed, Limits limits) {
  const isa::Machine& machine = program.machine();
  const auto sbuf = static_cast<double>(machine.sbuf_partition_bytes);
  capacity_ = {static_cast<std::int64_t>(limits.share * sbuf), machine.psum_partition_bytes};
  find_lives(program, core, placed, limits.packed);
}

void Room::find_lives(const isa::Program& program, int core, const std::vector<bool>& placed,
                      bool packed) {
  using Control = isa::OpSpec::Control;
  lives_.resize(program.tensors().size());
  std::vector<std::uint32_t> region(lives_.size(), 0);  // of the first use
  std::vector<std::pair<std::size_t, std::size_t>> loops;
  std::vector<std::size_t> open;
  std::size_t position = 0;
  std::uint32_t here = 1;
  for (const isa::Inst& inst : program.insts()) {
    if (inst.core != core) continue;
    const Control control = isa::spec(inst).control;
    if (control != Control::kNone) ++here;
    if (control == Control::kLoopBegin || control == Control::kWhileBegin) open.push_back(position);
    if (control == Control::kLoopEnd || control == Control::kWhileEnd) {
      loops.emplace_back(open.back(), position);
      open.pop_back();
    }
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      if (!ref.on_chip()) return;
      Life& life = lives_[ref.tensor];
      if (life.uses == 0) {
        life.first = position;
        region[ref.tensor] = here;
      }
      life.whole |= region[ref.tensor] != here;
      life.last = position;
      ++life.uses;
    });
    ++position;
  }
  filled_.assign(2, RangeMax(std::max<std::size_t>(position, 1)));
  unborn_.assign(2, PrefixSum(position));
  for (std::size_t t = 0; t < lives_.size(); ++t) {
    Life& life = lives_[t];
    if (life.uses == 0) continue;
    const isa::Tensor& tensor = program.tensors()[t];
    life.bytes = bytes_of(tensor, program.machine(), packed);
    life.left = life.uses;
    for (const auto& [begin, end] : loops) {
      if (!life.whole || life.last < begin || life.first > end) continue;
      life.first = std::min(life.first, begin);
      life.last = std::max(life.last, end);
    }
    filled_[index(tensor.space)].add(life.first, life.last + 1, life.bytes);
    if (placed.empty() || placed[t]) {
      life.uses = 0;
    } else {
      unborn_[index(tensor.space)].add(life.first, life.bytes);
      tracks_ = true;
    }
  }
}

template <typename Fn>
void Room::each_life(const isa::Inst& inst, Fn&& fn) const {
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
    if (ref.on_chip() && lives_[ref.tensor].uses != 0) fn(ref.tensor, index(ref.space));
  });
}

bool Room::begins(const isa::Inst& inst) const {
  bool any = false;
  each_life(inst, [&](std::uint32_t t, std::size_t) { any |= !lives_[t].born; });
  return any;
}

bool Room::fits(const isa::Inst& inst, std::size_t front) const {
  std::array<std::int64_t, 2> wanted{};
  std::array<std::size_t, 2> until{};
  each_life(inst, [&](std::uint32_t t, std::size_t space) {
    const Life& life = lives_[t];
    if (life.born) return;
    wanted.at(space) += life.bytes;  // a tile named twice counts twice: too careful, not wrong
    until.at(space) = std::max(until.at(space), life.first);
  });
  for (std::size_t space = 0; space < 2; ++space) {
    if (wanted.at(space) == 0 || front >= until.at(space)) continue;
    const std::int64_t nearer = unborn_[space].before(until.at(space));
    const std::int64_t filled = filled_[space].max(front, until.at(space)) + nearer;
    if (filled + wanted.at(space) > capacity_.at(space)) return false;
  }
  return true;
}

bool Room::execute(const isa::Inst& inst, std::size_t front) {
  bool ended = false;
  each_life(inst, [&](std::uint32_t t, std::size_t space) {
    Life& life = lives_[t];
    if (!life.born) {
      filled_[space].add(front, life.first, life.bytes);
      unborn_[space].add(life.first, -life.bytes);
    }
    life.born = true;
    if (--life.left > 0 || life.whole) return;
    filled_[space].add(front, life.last + 1, -life.bytes);
    ended = true;
  });
  return ended;
}

}  // namespace nkisim::compiler
