#include "models/completions.hpp"

namespace nkisim::models {
namespace {
constexpr std::size_t kKept = 4096;  // finished completions remembered per queue
}

std::uint64_t Completions::begin(QueueIndex queue, std::uint64_t sequence) {
  Queue& q = queues_[queue];
  while (q.items.size() > kKept && q.items.front().visible != kNever) {
    q.items.pop_front();
    ++q.first;
  }
  q.items.push_back({.sequence = sequence});
  return q.first + q.items.size() - 1;
}

void Completions::finish(QueueIndex queue, std::uint64_t number, Fs end, Fs visible) {
  Queue& q = queues_[queue];
  Completion& c = q.items[static_cast<std::size_t>(number - q.first)];
  c.end = end;
  c.visible = visible;
}

Completion Completions::get(QueueIndex queue, std::uint64_t number) const {
  const Queue& q = queues_[queue];
  if (number < q.first) return {.end = 0, .visible = 0};
  return q.items[static_cast<std::size_t>(number - q.first)];
}

}  // namespace nkisim::models
