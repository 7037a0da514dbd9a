// Records when the operations of each engine or DMA queue begin and finish.
#include "models/core/completions.hpp"

namespace nkisim::models {

std::uint64_t Completions::begin(QueueIndex queue, std::uint64_t sequence, Fs horizon) {
  Queue& q = queues_[queue];
  while (!q.items.empty() && q.items.front().visible < horizon) {
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

}  // namespace nkisim::models
