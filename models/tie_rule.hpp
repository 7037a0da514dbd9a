// Orders simulation events that are due at one instant, and can shuffle them for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

namespace nkisim::models {

/// For tests: the rule puts what is due at one instant into the order of rank, core, unit and
/// program, however it was found. A seed shuffles it before; without the rule that shows.
struct TieRule {
  std::uint64_t shuffle_seed = 0;  // 0: nothing is shuffled
  bool sorts = true;
};

/// Applies the rule in one place.
class TieOrder {
 public:
  explicit TieOrder(const TieRule& rule = {}) : rule_(rule), random_(rule.shuffle_seed) {}
  /// Orders items by `less`, a total order.
  template <typename List, typename Less>
  void order(List& items, const Less& less) {
    if (items.size() < 2) return;
    if (rule_.shuffle_seed != 0) std::shuffle(items.begin(), items.end(), random_);
    if (rule_.sorts) std::sort(items.begin(), items.end(), less);
  }
  /// True if order() may order the same items differently the next time.
  [[nodiscard]] bool shuffles() const { return rule_.shuffle_seed != 0; }

 private:
  TieRule rule_;
  std::mt19937_64 random_;
};

}  // namespace nkisim::models
