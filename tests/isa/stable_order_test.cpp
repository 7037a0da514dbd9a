// Tests the sort of lists by numbers against std::stable_sort.
#include "isa/base/stable_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <string>

using nkisim::isa::sort_stably;

TEST_CASE("lists are sorted as by std::stable_sort") {
  std::mt19937 random(1);
  for (const std::size_t count : {0U, 1U, 2U, 17U, 400U}) {
    std::vector<std::pair<unsigned, std::string>> list;
    for (std::size_t i = 0; i < count; ++i) {
      list.emplace_back(random() % 7, std::string(20, 'x') + std::to_string(i));
    }
    auto expected = list;
    const auto less = [](const auto& a, const auto& b) { return a.first > b.first; };
    std::stable_sort(expected.begin(), expected.end(), less);
    sort_stably(list, less);
    CHECK(list == expected);
  }
}

TEST_CASE("what cannot be copied is sorted as well") {
  std::vector<std::unique_ptr<int>> list;
  for (const int i : {3, 1, 2}) list.push_back(std::make_unique<int>(i));
  sort_stably(list, [](const auto& a, const auto& b) { return *a < *b; });
  REQUIRE(list.size() == 3);
  CHECK((*list[0] == 1 && *list[1] == 2 && *list[2] == 3));
}
