// Tests RangeMax, which counts live bytes over program positions: it adds numbers to ranges and
// finds maxima, as a plain loop does.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <utility>
#include <vector>

#include "compiler/analysis/sbuf_budget.hpp"

using namespace nkisim::compiler;

TEST_CASE("sums over ranges and their maxima are those of single values") {
  std::mt19937 random(7);
  for (const std::size_t size : {1U, 2U, 3U, 8U, 37U, 64U}) {
    RangeMax ranges(size);
    std::vector<std::int64_t> values(size, 0);
    std::uniform_int_distribution<std::size_t> place(0, size);
    std::uniform_int_distribution<std::int64_t> amount(-50, 50);
    for (int step = 0; step < 300; ++step) {
      const std::size_t a = place(random), b = place(random);
      const std::int64_t value = amount(random);
      ranges.add(a, b, value);
      for (std::size_t i = a; i < b; ++i) values[i] += value;
      const std::size_t from = place(random), to = place(random);
      std::int64_t largest = from < to ? values[from] : 0;
      for (std::size_t i = from; i < to; ++i) largest = std::max(largest, values[i]);
      CHECK(ranges.max(from, to) == largest);
    }
  }
}

namespace {

// As Occupancy, looking at every position.
struct Plain {
  struct Life {
    std::size_t first, last;
    std::int64_t bytes;
    bool awaited;
  };
  std::vector<std::int64_t> filled;
  std::vector<Life> lives;
  std::size_t front = 0;

  void change(std::size_t from, std::size_t to, std::int64_t bytes) {
    for (std::size_t p = from; p < to; ++p) filled[p] += bytes;
  }
  [[nodiscard]] std::int64_t most(std::size_t until) const {
    std::int64_t most = filled[front], waiting = 0;
    for (std::size_t p = front; p < until; ++p) most = std::max(most, filled[p]);
    for (const Life& life : lives) {
      if (life.awaited && life.first < until) waiting += life.bytes;
    }
    return most + waiting;
  }
};

}  // namespace

TEST_CASE("bytes filled by tile lifetimes equal those added one by one") {
  std::mt19937 random(11);
  for (const std::size_t size : {1U, 2U, 15U, 16U, 17U, 40U, 333U, 9000U}) {
    Occupancy filling(size);
    Plain plain{.filled = std::vector<std::int64_t>(size, 0), .lives = {}};
    std::uniform_int_distribution<std::size_t> place(0, size - 1);
    std::uniform_int_distribution<std::int64_t> amount(1, 100);
    for (int k = 0; k < 60; ++k) {
      const auto [first, last] = std::minmax({place(random), place(random)});
      const Plain::Life life{first, last, amount(random), k % 5 != 0};
      filling.add(first, last, life.bytes, life.awaited);
      plain.change(first, last + 1, life.bytes);
      plain.lives.push_back(life);
    }
    filling.find_sums();
    for (std::size_t k = 0; k < plain.lives.size(); ++k) {
      Plain::Life& life = plain.lives[(k * 7) % plain.lives.size()];
      plain.front +=
          place(random) < size / 2 && plain.front + 1 + size / 80 < size ? 1 + size / 80 : 0;
      filling.advance(plain.front);
      if (std::exchange(life.awaited, false)) {
        filling.begin(life.first, life.bytes);
        if (plain.front < life.first) plain.change(plain.front, life.first, life.bytes);
      } else {
        filling.end(life.last, life.bytes);
        if (plain.front <= life.last) plain.change(plain.front, life.last + 1, -life.bytes);
      }
      for (int asked = 0; asked < 20; ++asked) {
        const std::size_t until =
            std::uniform_int_distribution<std::size_t>(plain.front + 1, size)(random);
        CHECK(filling.most(until) == plain.most(until));
      }
    }
  }
}
