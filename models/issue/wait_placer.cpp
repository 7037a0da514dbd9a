// Leaves out waits for operations that an engine already knows to have finished.
#include "models/issue/wait_placer.hpp"

#include <algorithm>
#include <utility>

namespace nkisim::models {
namespace {

// An engine's knowledge from more than this many waits ago matters to no later wait.
constexpr std::size_t kMoments = 1024;

bool of_engine(const Edge& edge) { return edge.queue < isa::kEngineCount; }

}  // namespace

const WaitPlacer::Clock* WaitPlacer::known_at(QueueIndex engine, std::uint64_t number) const {
  const auto& moments = moments_.at(engine);
  std::size_t end = moments.size(), step = 1;  // those from `end` on are later
  while (end > 0 && number < moments[end - std::min(step, end)].number) {
    end -= std::min(step, end);
    step *= 2;
  }
  std::size_t begin = end - std::min(step, end);
  while (end - begin > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    (number < moments[middle].number ? end : begin) = middle;
  }
  return end == 0 ? nullptr : &moments[begin].known;
}

bool WaitPlacer::implied(const Edge& edge, const std::vector<Edge>& engines) const {
  return std::any_of(engines.begin(), engines.end(), [&](const Edge& other) {
    if (other.queue == edge.queue) return other.number > edge.number;
    const Clock* known = known_at(other.queue, other.number);
    return known != nullptr && known->at(edge.queue) >= edge.number;
  });
}

void WaitPlacer::learn(std::size_t engine, const Need& need) {
  Clock& clock = clocks_.at(engine);
  if (const Clock* known = known_at(need.queue, need.number)) {
    for (std::size_t e = 0; e < clock.size(); ++e) clock[e] = std::max(clock[e], (*known)[e]);
  }
  clock.at(need.queue) = std::max(clock.at(need.queue), need.number);
}

// Null: it finished so long ago that it delays nothing.
WaitPlacer::Waiters* WaitPlacer::waiters_of(const Edge& dma) {
  if (completions_.forgotten(dma.queue, dma.number)) return nullptr;
  if (transfers_.size() <= dma.queue) transfers_.resize(completions_.size());
  auto& [first, waiters] = transfers_[dma.queue];
  while (!waiters.empty() && completions_.forgotten(dma.queue, first)) {
    waiters.pop_front();
    ++first;
  }
  if (waiters.empty()) first = dma.number;
  for (; dma.number < first; --first) waiters.emplace_front();
  if (dma.number - first >= waiters.size()) waiters.resize(dma.number - first + 1);
  return &waiters[dma.number - first];
}

// True if the engine has to wait for a DMA: neither it nor an engine that it waited for has done
// so.
bool WaitPlacer::learns(const Waiter& waiter, const Edge& dma) {
  Waiters* known = waiters_of(dma);
  const auto engine = static_cast<std::uint8_t>(waiter.engine);
  const auto bit = static_cast<std::uint8_t>(1U << engine);
  if (known == nullptr || (known->all & bit) != 0) return false;
  if (std::exchange(known->all, known->all | bit) != 0) {
    return clocks_.at(engine).at(known->engine) < known->number;
  }
  known->engine = engine;
  known->number = next_.at(engine);
  return true;
}

void WaitPlacer::wait_for(isa::Engine engine, QueueIndex producer, std::uint64_t number,
                          std::vector<Need>& needs) {
  const auto e = static_cast<std::size_t>(engine);
  if (clocks_.at(e).at(producer) >= number) return;
  needs.push_back({producer, 0, number});
  learn(e, needs.back());
}

// The data path keeps order among its own instructions; only results it reads need a wait.
NeedsNoEdge WaitPlacer::left_out(const Waiter& waiter) const {
  return {clocks_.at(static_cast<std::size_t>(waiter.engine)),
          waiter.detached ? kNoQueue : static_cast<QueueIndex>(waiter.engine)};
}

void WaitPlacer::place(const Waiter& waiter, const std::vector<Edge>& edges,
                       std::vector<Need>& needs) {
  const auto engine = static_cast<std::size_t>(waiter.engine);
  const bool on_engine = waiter.queue == static_cast<QueueIndex>(engine);
  // A DMA's waits are known to the engine's next instruction.
  if (on_engine) next_.at(engine) = waiter.number;
  if (edges.empty()) {
    if (on_engine) ++next_.at(engine);
    return;
  }
  const std::size_t before = needs.size();
  engines_.clear();
  const NeedsNoEdge none = left_out(waiter);
  for (const Edge& edge : edges) {
    const bool own = edge.queue == none.ordered && edge.kind != Edge::Kind::kReadAfterWrite;
    if (of_engine(edge) && !own && edge.number > none.finished.at(edge.queue)) {
      engines_.push_back(edge);
    }
  }
  for (const Edge& edge : engines_) {
    const auto same = [&](const Need& n) {
      return n.queue == edge.queue && n.number == edge.number;
    };
    if (std::any_of(needs.begin(), needs.end(), same) || implied(edge, engines_)) continue;
    needs.push_back({edge.queue, 0, edge.number});
  }
  for (std::size_t i = before; i < needs.size(); ++i) learn(engine, needs[i]);
  for (const Edge& edge : edges) {
    if (!of_engine(edge) && learns(waiter, edge)) needs.push_back({edge.queue, 0, edge.number});
  }
  if (needs.size() != before) {
    auto& moments = moments_.at(engine);
    moments.push_back({next_.at(engine), clocks_.at(engine)});
    if (moments.size() > kMoments) moments.pop_front();
  }
  if (on_engine) ++next_.at(engine);
}

}  // namespace nkisim::models
