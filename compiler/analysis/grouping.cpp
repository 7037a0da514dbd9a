// Reorders a program in which groups of instructions become one instruction each.
#include "compiler/analysis/grouping.hpp"

#include <queue>

#include "compiler/analysis/precedence.hpp"
#include "compiler/placement/place.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};

}  // namespace

Gather::Gather(const isa::Program& program, const std::vector<bool>& placed)
    : followers_(program.insts().size()), needs_(followers_.size(), 0) {
  const isa::Uses uses(program);
  Precedence precedence(program, uses, placed);
  for (std::uint32_t i = 0; i < followers_.size(); ++i) {
    for (const Hazards::Edge& edge : precedence.add(i, i, [](std::uint32_t) { return false; })) {
      followers_[edge.producer].push_back(i);
      ++needs_[i];
    }
  }
}

bool Gather::reaches(std::uint32_t from, std::uint32_t to) const {
  std::vector<bool> seen(to - from + 1, false);
  std::vector<std::uint32_t> left = {from};
  while (!left.empty()) {
    const std::uint32_t i = left.back();
    left.pop_back();
    for (const std::uint32_t f : followers_[i]) {
      if (f == to) return true;
      if (f > to || seen[f - from]) continue;
      seen[f - from] = true;
      left.push_back(f);
    }
  }
  return false;
}

std::optional<std::vector<std::uint32_t>> Gather::order(const Groups& groups) const {
  const auto count = static_cast<std::uint32_t>(followers_.size());
  std::vector<std::uint32_t> open = needs_, group_of(count, kNoGroup), open_group;
  for (const std::vector<std::uint32_t>& group : groups) {
    std::uint32_t needs = 0;
    for (const std::uint32_t i : group) {
      group_of[i] = static_cast<std::uint32_t>(open_group.size());
      needs += needs_[i];
    }
    open_group.push_back(needs);
  }
  using Ready = std::pair<std::uint32_t, std::uint32_t>;  // age, number
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (group_of[i] == kNoGroup && open[i] == 0) ready.emplace(i, i);
  }
  for (std::uint32_t g = 0; g < groups.size(); ++g) {
    if (open_group[g] == 0) ready.emplace(groups[g].front(), count + g);
  }
  std::vector<std::uint32_t> order;
  std::size_t done = 0;
  const auto finish = [&](std::uint32_t i) {
    ++done;
    for (const std::uint32_t f : followers_[i]) {
      const std::uint32_t g = group_of[f];
      if (g == kNoGroup ? --open[f] == 0 : --open_group[g] == 0) {
        g == kNoGroup ? ready.emplace(f, f) : ready.emplace(groups[g].front(), count + g);
      }
    }
  };
  while (!ready.empty()) {
    const std::uint32_t number = ready.top().second;
    ready.pop();
    order.push_back(number);
    if (number < count) {
      finish(number);
    } else {
      for (const std::uint32_t i : groups[number - count]) finish(i);
    }
  }
  if (done != count) return std::nullopt;
  return order;
}

std::uint32_t Grouping::side_by_side(const Numbers& tiles, isa::Tensor all) {
  const std::int64_t bytes = program_.tensors()[tiles.front()].extent_bytes();
  const std::uint32_t tile = program_.add_tensor(std::move(all));
  std::int64_t offset = 0;
  for (const std::uint32_t t : tiles) {
    moves_.move(t, {tile, offset});
    offset += bytes;
  }
  return tile;
}

void Grouping::add(Numbers group, Make make) {
  groups_.push_back(std::move(group));
  make_.push_back(std::move(make));
}

std::size_t Grouping::finish_at_last() {
  const auto count = static_cast<std::uint32_t>(program_.insts().size());
  Numbers last_of(count, kNoGroup), order;
  std::vector<bool> grouped(count, false);
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    for (const std::uint32_t i : groups_[g]) grouped[i] = true;
    last_of[groups_[g].back()] = g;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!grouped[i]) order.push_back(i);
    if (last_of[i] != kNoGroup) order.push_back(count + last_of[i]);
  }
  return finish(std::move(order));
}

std::optional<std::size_t> Grouping::finish_when_ready() {
  if (groups_.empty()) return 0;
  auto order = gather_->order(groups_);
  if (!order) return std::nullopt;
  return finish(std::move(*order));
}

// The groups' new instructions come behind all others first, in their groups' order.
std::size_t Grouping::finish(Numbers order) {
  if (groups_.empty()) return 0;
  moves_.apply();
  for (const Make& make : make_) {
    const Made made = make();
    program_.append(made.inst, made.args);
  }
  Numbers gone;
  for (const Numbers& group : groups_) {
    for (const std::uint32_t i : group) {
      gone.push_back(static_cast<std::uint32_t>(order.size()));
      order.push_back(i);
    }
  }
  program_.reorder(order);
  program_.remove(gone);
  return gone.size() - groups_.size();
}

PassResult group_if_it_fits(Unit& unit, const std::function<std::optional<std::size_t>()>& group) {
  if (!can_be_placed(unit)) return {0, "the present order does not fit"};
  const isa::Program::Version own = unit.program.version();
  const std::optional<std::size_t> saved = group();
  if (saved && (*saved == 0 || can_be_placed(unit))) return {*saved};
  unit.program.restore(own);
  return {0, saved ? "would not fit" : "they wait for one another"};
}

}  // namespace nkisim::compiler
