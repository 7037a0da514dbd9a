// Finds the known name with the least edit distance to a misspelt one, for "did you mean".

#include "isa/base/nearest.hpp"

#include <algorithm>
#include <numeric>

namespace nkisim::isa {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view wrong, const std::vector<std::string_view>& names) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, wrong.size() / 3) + 1;
  for (const std::string_view candidate : names) {
    const std::size_t distance = edit_distance(wrong.substr(0, 64), candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggest(std::string_view wrong, const std::vector<std::string_view>& names) {
  const std::string_view name = nearest(wrong, names);
  return name.empty() ? std::string{} : "; did you mean " + std::string(name) + "?";
}

}  // namespace nkisim::isa
