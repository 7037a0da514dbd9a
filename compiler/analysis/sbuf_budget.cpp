// Counts the bytes of SBUF and PSUM in use at each point of an instruction order being built.
#include "compiler/analysis/sbuf_budget.hpp"

#include <algorithm>
#include <bit>

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

Occupancy::Occupancy(std::size_t positions) : steps_(positions + 1) {
  std::size_t nodes = (steps_.size() + kBlock - 1) / kBlock, begin = 0;
  for (std::size_t& level : levels_) {
    level = begin;
    begin += nodes;
    nodes = (nodes + 1) / 2;
  }
  sums_.resize(begin);
}

void Occupancy::add(std::size_t first, std::size_t last, std::int64_t bytes, bool awaited) {
  steps_[first].change += bytes;
  steps_[last + 1].change -= bytes;
  if (awaited) steps_[first].awaited += bytes;
}

void Occupancy::find_sums() {
  filled_ = steps_[0].change;
  for (std::size_t block = 0; block * kBlock < steps_.size(); ++block) {
    sums_[block] = of_block(block);
  }
  for (std::size_t level = 1; level <= kHeight; ++level) {
    const std::size_t below = levels_.at(level - 1), count = levels_.at(level) - below;
    for (std::size_t node = 0; node < count; ++node) {
      Sum& sum = sums_[place(level, node / 2)];
      const Sum& more = sums_[below + node];
      sum.then(more.change, more.highest, more.awaited);
    }
  }
}

Occupancy::Sum Occupancy::of_block(std::size_t block) const {
  Sum sum;
  const std::size_t end = std::min(steps_.size(), (block + 1) * kBlock);
  for (std::size_t p = block * kBlock; p < end; ++p) {
    sum.then(steps_[p].change, steps_[p].change, steps_[p].awaited);
  }
  return sum;
}

void Occupancy::update(std::size_t position) {
  std::size_t node = position / kBlock;
  sums_[node] = of_block(node);
  for (std::size_t level = 1; level <= kHeight; ++level) {
    const std::size_t left = place(level - 1, node & ~std::size_t{1});
    node /= 2;
    Sum sum = sums_[left];
    if (left + 1 < levels_.at(level)) {
      const Sum& more = sums_[left + 1];
      sum.then(more.change, more.highest, more.awaited);
    }
    sums_[place(level, node)] = sum;
  }
}

void Occupancy::advance(std::size_t front) {
  while (front_ < front) {
    awaited_ += steps_[front_].awaited;
    filled_ += steps_[++front_].change;
  }
}

void Occupancy::begin(std::size_t first, std::int64_t bytes) {
  if (first < front_) {
    awaited_ -= bytes;
    return;
  }
  steps_[first].awaited -= bytes;
  if (first > front_) {
    filled_ += bytes;
    steps_[first].change -= bytes;
  }
  update(first);
}

void Occupancy::end(std::size_t last, std::int64_t bytes) {
  if (last < front_) return;
  filled_ -= bytes;
  steps_[last + 1].change += bytes;
  update(last + 1);
}

std::int64_t Occupancy::most(std::size_t until) const {
  Sum sum;
  sum.awaited = awaited_ + steps_[front_].awaited;
  std::size_t p = front_ + 1;
  for (; p < until && p % kBlock != 0; ++p) {
    sum.then(steps_[p].change, steps_[p].change, steps_[p].awaited);
  }
  const std::size_t end = until / kBlock;
  for (std::size_t node = p / kBlock; node < end;) {
    const auto fits = static_cast<std::size_t>(std::bit_width(end - node)) - 1;
    const std::size_t level = std::min(
        {kHeight, fits, node == 0 ? kHeight : static_cast<std::size_t>(std::countr_zero(node))});
    const Sum& more = sums_[place(level, node >> level)];
    sum.then(more.change, more.highest, more.awaited);
    node += std::size_t{1} << level;
    p = node * kBlock;
  }
  for (; p < until; ++p) sum.then(steps_[p].change, steps_[p].change, steps_[p].awaited);
  return filled_ + sum.highest + sum.awaited;
}

namespace {

// The bytes that a tile takes of every partition; on average if `packed`.
std::int64_t bytes_of(const isa::Tensor& tensor, std::int64_t bytes, const isa::Machine& machine,
                      bool packed) {
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

std::int64_t budget_for_longer_lifetimes(const isa::Machine& machine) {
  return machine.sbuf_partition_bytes / 4 * 3;
}

SbufBudget::SbufBudget(const isa::Program& program, const isa::Uses& uses,
                       std::span<const std::uint32_t> mine, const std::vector<bool>& placed,
                       Limits limits)
    : operands_(uses.operands()), lives_(operands_.tensors()) {
  const isa::Machine& machine = program.machine();
  const auto sbuf = static_cast<double>(machine.sbuf_partition_bytes);
  capacity_ = {static_cast<std::int64_t>(limits.share * sbuf), machine.psum_partition_bytes};
  find_uses(program, mine);
  fill(program, mine.size(), placed, limits.packed);
}

void SbufBudget::find_uses(const isa::Program& program, std::span<const std::uint32_t> mine) {
  using Control = isa::OpSpec::Control;
  const std::vector<std::size_t>& control_flow = program.control_flow();
  std::vector<std::uint32_t> region(control_flow.empty() ? 0 : lives_.size(), 0);  // of first uses
  std::vector<std::uint32_t> open;
  std::uint32_t here = 1;
  auto control = control_flow.begin();
  for (std::uint32_t position = 0; position < mine.size(); ++position) {
    const std::uint32_t i = mine[position];
    while (control != control_flow.end() && *control < i) ++control;
    if (control != control_flow.end() && *control == i) {
      ++here;
      const Control kind = isa::spec(program.insts()[i]).control;
      if (kind == Control::kLoopBegin || kind == Control::kWhileBegin) open.push_back(position);
      if (kind == Control::kLoopEnd || kind == Control::kWhileEnd) {
        loops_.emplace_back(open.back(), position);
        open.pop_back();
      }
    }
    for (const isa::Operand& operand : operands_.of(i)) {
      if (!operand.on_chip()) continue;
      Life& life = lives_[operand.tensor()];
      if (life.left == 0) life.first = position;
      life.last = position;
      ++life.left;
      if (region.empty()) continue;
      if (life.left == 1) region[operand.tensor()] = here;
      life.whole |= region[operand.tensor()] != here;
    }
  }
}

void SbufBudget::fill(const isa::Program& program, std::size_t positions,
                      const std::vector<bool>& placed, bool packed) {
  filled_.assign(2, Occupancy(std::max<std::size_t>(positions, 1)));
  for (std::size_t t = 0; t < lives_.size(); ++t) {
    Life& life = lives_[t];
    if (life.left == 0) continue;
    const isa::Tensor& tensor = program.tensors()[t];
    life.bytes =
        bytes_of(tensor, operands_.bytes(static_cast<std::uint32_t>(t)), program.machine(), packed);
    for (const auto& [begin, end] : loops_) {
      if (!life.whole || life.last < begin || life.first > end) continue;
      life.first = std::min(life.first, begin);
      life.last = std::max(life.last, end);
    }
    life.followed = !placed.empty() && !placed[t];
    tracks_ |= life.followed;
    filled_[index(tensor.space)].add(life.first, life.last, life.bytes, life.followed);
  }
  for (Occupancy& filled : filled_) filled.find_sums();
}

template <typename Fn>
void SbufBudget::each_life(std::uint32_t i, Fn&& fn) const {
  for (const isa::Operand& operand : operands_.of(i)) {
    if (operand.on_chip() && lives_[operand.tensor()].followed) {
      fn(operand.tensor(), index(operand.space()));
    }
  }
}

bool SbufBudget::begins(std::uint32_t i) const {
  bool any = false;
  each_life(i, [&](std::uint32_t t, std::size_t) { any |= !lives_[t].born; });
  return any;
}

bool SbufBudget::fits(std::uint32_t i, std::size_t front) {
  std::array<std::int64_t, 2> wanted{};
  std::array<std::size_t, 2> until{};
  each_life(i, [&](std::uint32_t t, std::size_t space) {
    const Life& life = lives_[t];
    if (life.born) return;
    wanted.at(space) += life.bytes;  // a tile named twice counts twice: too careful, not wrong
    until.at(space) = std::max<std::size_t>(until.at(space), life.first);
  });
  for (std::size_t space = 0; space < 2; ++space) {
    if (wanted.at(space) == 0 || front >= until.at(space)) continue;
    Occupancy& filled = filled_[space];
    filled.advance(front);
    const std::int64_t left = capacity_.at(space) - wanted.at(space);
    if (filled.now() > left || filled.most(until.at(space)) > left) return false;
  }
  return true;
}

bool SbufBudget::execute(std::uint32_t i, std::size_t front) {
  bool ended = false;
  each_life(i, [&](std::uint32_t t, std::size_t space) {
    Life& life = lives_[t];
    Occupancy& filled = filled_[space];
    filled.advance(front);
    if (!life.born) filled.begin(life.first, life.bytes);
    life.born = true;
    if (--life.left > 0 || life.whole) return;
    filled.end(life.last, life.bytes);
    ended = true;
  });
  return ended;
}

}  // namespace nkisim::compiler
