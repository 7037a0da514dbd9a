// Finds the bytes that two access patterns share, one contiguous stretch (run) after another.
#include "checks/overlap.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace nkisim::checks {
namespace {

using isa::Footprint;
using Run = std::pair<std::int64_t, std::int64_t>;  // bytes [first, last)

constexpr std::int64_t kMostRuns = 1 << 17;

std::int64_t run_count(const Footprint& f) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(f.dim_count) && count <= kMostRuns; ++i) {
    count *= f.dims.at(i).count;
  }
  return count;
}

// The runs of a footprint that reach into [first, last), in order.
std::vector<Run> runs(const Footprint& f, std::int64_t first, std::int64_t last) {
  std::vector<Run> all = {{f.first, f.first + f.run}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(f.dim_count); ++i) {
    const auto& dim = f.dims.at(i);
    const std::size_t have = all.size();
    all.reserve(have * static_cast<std::size_t>(dim.count));
    for (std::int64_t n = 1; n < dim.count; ++n) {
      for (std::size_t r = 0; r < have; ++r) {
        all.emplace_back(all[r].first + n * dim.stride, all[r].second + n * dim.stride);
      }
    }
  }
  std::erase_if(all, [&](const Run& r) { return r.second <= first || r.first >= last; });
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

std::optional<Bytes> shared_bytes(const Footprint& a, const Footprint& b) {
  if (!isa::may_overlap(a, b)) return std::nullopt;
  Bytes found{std::max(a.first, b.first), std::min(a.last, b.last),
              std::max(a.partition, b.partition), std::min(a.partition_end, b.partition_end)};
  if ((a.dense() && b.dense()) || run_count(a) > kMostRuns || run_count(b) > kMostRuns)
    return found;
  const std::vector<Run> x = runs(a, found.first, found.last);
  const std::vector<Run> y = runs(b, found.first, found.last);
  std::optional<Run> shared;
  std::size_t i = 0, j = 0;
  while (i < x.size() && j < y.size()) {
    const std::int64_t from = std::max(x[i].first, y[j].first);
    const std::int64_t to = std::min(x[i].second, y[j].second);
    if (from < to) {
      if (!shared) shared = {from, to};
      shared->second = std::max(shared->second, to);
    }
    if (x[i].second < y[j].second) {
      ++i;
    } else {
      ++j;
    }
  }
  if (!shared) return std::nullopt;
  found.first = shared->first;
  found.last = shared->second;
  return found;
}

}  // namespace nkisim::checks
