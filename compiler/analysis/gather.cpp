#include "compiler/analysis/gather.hpp"

#include <functional>
#include <queue>
#include <utility>

#include "compiler/analysis/precedence.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};

}  // namespace

Gather::Gather(const isa::Program& program, const std::vector<bool>& placed)
    : followers_(program.insts().size()), needs_(followers_.size(), 0) {
  Precedence precedence(program, placed);
  for (std::uint32_t i = 0; i < followers_.size(); ++i) {
    for (const Hazards::Edge& edge :
         precedence.add(program.insts()[i], i, [](std::uint32_t) { return false; })) {
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

std::size_t put_groups(isa::Program& program, std::vector<std::uint32_t> order,
                       const Gather::Groups& groups) {
  std::vector<std::uint32_t> gone;
  for (const std::vector<std::uint32_t>& group : groups) {
    for (const std::uint32_t i : group) {
      gone.push_back(static_cast<std::uint32_t>(order.size()));
      order.push_back(i);
    }
  }
  program.reorder(order);
  program.remove(gone);
  return gone.size() - groups.size();
}

}  // namespace nkisim::compiler
