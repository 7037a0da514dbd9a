// Tests Fifo, the queue that keeps the order of its items.
#include "models/fifo.hpp"

#include <catch2/catch.hpp>
#include <vector>

using nkisim::models::Fifo;

TEST_CASE("a Fifo keeps the order of what is inserted into it, equal items as they came") {
  struct Item {
    int time, number;
  };
  const auto later = [](const Item& a, const Item& b) { return a.time > b.time; };
  Fifo<Item> queue;
  queue.push_back({0, 0});
  queue.pop_front();  // what was taken is no place to insert at
  queue.push_back({1, 0});
  queue.push_back({5, 1});
  queue.pop_front();
  for (const Item& item : std::vector<Item>{{7, 2}, {3, 3}, {5, 4}, {2, 5}, {7, 6}, {0, 7}}) {
    queue.insert(item, later);
  }
  std::vector<int> numbers;
  for (; !queue.empty(); queue.pop_front()) numbers.push_back(queue.front().number);
  CHECK(numbers == std::vector<int>{7, 5, 3, 1, 4, 2, 6});
}
