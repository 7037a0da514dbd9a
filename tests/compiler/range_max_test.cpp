// The largest value of a range, against looking at all of them.
#include <catch2/catch.hpp>
#include <random>

#include "compiler/analysis/room.hpp"

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
