// Sorts lists of any type by one sort of numbers. std::stable_sort is compiled anew for each type
// and order, and was a tenth of the code of reports, which have many short lists.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace nkisim::isa {

/// The numbers 0 to `count` - 1 in the order of `less`; equal ones ascend.
[[nodiscard]] std::vector<std::size_t> stable_order(
    std::size_t count, const std::function<bool(std::size_t, std::size_t)>& less);

/// As std::stable_sort. For lists of rows: it needs a second list, and a call for each comparison.
template <typename T, typename Less>
void sort_stably(std::vector<T>& list, const Less& less) {
  std::vector<T> sorted;
  sorted.reserve(list.size());
  for (const std::size_t i : stable_order(
           list.size(), [&](std::size_t a, std::size_t b) { return less(list[a], list[b]); })) {
    sorted.push_back(std::move(list[i]));
  }
  list.swap(sorted);
}

}  // namespace nkisim::isa
