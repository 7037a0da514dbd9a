// Pairs the equal elements of two sequences of names by a search for the fewest edits.

#include "src/device_profile/align.hpp"

#include <algorithm>
#include <cstdint>

namespace nkisim {
namespace {

using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;
using Names = std::vector<std::string_view>;

// Furthest points reached on every diagonal, kept per number of edits to walk back.
class Search {
 public:
  Search(const Names& a, const Names& b) : a_(a), b_(b) {}

  Pairs run(std::size_t max_edits) {
    const auto n = static_cast<std::int64_t>(a_.size()), m = static_cast<std::int64_t>(b_.size());
    const auto limit = std::min<std::int64_t>(n + m, static_cast<std::int64_t>(max_edits));
    std::vector<std::int64_t> reach(static_cast<std::size_t>(2 * limit + 3), 0);
    const auto at = [&](std::int64_t k) -> std::int64_t& {
      return reach[static_cast<std::size_t>(k + limit + 1)];
    };
    std::int64_t best_x = 0, best_y = 0, best_d = 0;
    for (std::int64_t d = 0; d <= limit; ++d) {
      history_.emplace_back();
      for (std::int64_t k = -d; k <= d; k += 2) {
        const bool down = k == -d || (k != d && at(k - 1) < at(k + 1));
        std::int64_t x = d == 0 ? 0 : down ? at(k + 1) : at(k - 1) + 1;
        while (x < n && x - k < m && x - k >= 0 && same(x, x - k)) ++x;
        at(k) = x;
        history_.back().push_back(x);
        const std::int64_t y = x - k;
        if (x <= n && y <= m && x + y > best_x + best_y) {
          best_x = x;
          best_y = y;
          best_d = d;
        }
        if (x >= n && y >= m) return walk_back(n, m, d);
      }
    }
    return walk_back(best_x, best_y, best_d);
  }

 private:
  [[nodiscard]] bool same(std::int64_t x, std::int64_t y) const {
    return a_[static_cast<std::size_t>(x)] == b_[static_cast<std::size_t>(y)];
  }
  [[nodiscard]] std::int64_t reached(std::int64_t d, std::int64_t k) const {
    return history_[static_cast<std::size_t>(d)][static_cast<std::size_t>((k + d) / 2)];
  }
  Pairs walk_back(std::int64_t x, std::int64_t y, std::int64_t d) const {
    Pairs pairs;
    for (; d >= 0; --d) {
      const std::int64_t k = x - y;
      std::int64_t from_x = 0, from_y = 0;
      if (d > 0) {
        const bool down = k == -d || (k != d && reached(d - 1, k - 1) < reached(d - 1, k + 1));
        const std::int64_t k0 = down ? k + 1 : k - 1;
        const std::int64_t x0 = reached(d - 1, k0);
        from_x = down ? x0 : x0 + 1;
        from_y = from_x - k;
        while (x > from_x && y > from_y) take(pairs, x, y);
        x = x0;
        y = x0 - k0;
      } else {
        while (x > 0 && y > 0) take(pairs, x, y);
      }
    }
    std::reverse(pairs.begin(), pairs.end());
    return pairs;
  }
  static void take(Pairs& pairs, std::int64_t& x, std::int64_t& y) {
    --x;
    --y;
    pairs.emplace_back(static_cast<std::size_t>(x), static_cast<std::size_t>(y));
  }

  const Names& a_;
  const Names& b_;
  std::vector<std::vector<std::int64_t>> history_;
};

}  // namespace

Pairs align(const Names& a, const Names& b, std::size_t max_edits) {
  // Common ends need no search.
  std::size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  Pairs pairs;
  for (std::size_t i = 0; i < head; ++i) pairs.emplace_back(i, i);
  const Names rest_a(a.begin() + static_cast<std::ptrdiff_t>(head), a.end());
  const Names rest_b(b.begin() + static_cast<std::ptrdiff_t>(head), b.end());
  for (const auto& [x, y] : Search(rest_a, rest_b).run(max_edits)) {
    pairs.emplace_back(x + head, y + head);
  }
  return pairs;
}

}  // namespace nkisim
