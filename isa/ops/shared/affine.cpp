// Checks and computes the affine index patterns of iota and affine_select.
#include "isa/ops/shared/affine.hpp"

#include <limits>

namespace nkisim::isa {

void check_int32(std::string_view param, std::int64_t value) {
  using Limits = std::numeric_limits<std::int32_t>;
  if (value >= Limits::min() && value <= Limits::max()) return;
  fail(Rule::integer_range, param, std::to_string(value), "a 32-bit integer");
}

void check_affine_pattern(const IntList& pattern, std::int64_t elements) {
  if (pattern.empty() || pattern.size() % 2 != 0 || pattern.size() > 8) {
    fail(Rule::affine_pattern, "pattern", std::to_string(pattern.size()) + " numbers",
         "one to four [step, num] pairs");
  }
  std::int64_t product = 1;
  for (std::size_t i = 0; i < pattern.size(); i += 2) {
    check_int32("pattern", pattern[i]);
    if (pattern[i + 1] < 1 || pattern[i + 1] > elements) {
      fail(Rule::affine_pattern, "pattern", "a dimension of " + std::to_string(pattern[i + 1]),
           "sizes that multiply to " + std::to_string(elements) + ", dst's elements per partition");
    }
    product *= pattern[i + 1];
    if (product > elements) break;
  }
  if (product == elements) return;
  fail(Rule::affine_pattern, "pattern", std::to_string(product) + " elements",
       std::to_string(elements) + ", dst's elements per partition,");
}

Tile<std::int32_t> affine_values(OpContext& ctx, const IntList& pattern, std::int64_t offset,
                                 std::int64_t channel_multiplier, std::int64_t rows) {
  std::int64_t columns = 1;
  for (std::size_t i = 1; i < pattern.size(); i += 2) columns *= pattern[i];
  const auto out = ctx.make<std::int32_t>(rows, columns);
  for (std::int64_t c = 0; c < columns; ++c) {
    std::int64_t value = offset, rest = c;
    for (std::size_t d = pattern.size(); d >= 2; d -= 2) {
      value += pattern[d - 2] * (rest % pattern[d - 1]);
      rest /= pattern[d - 1];
    }
    out.data[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(value));
  }
  const auto step = static_cast<std::uint32_t>(channel_multiplier);
  for (std::int64_t r = rows; r-- > 0;) {
    const std::uint32_t base = static_cast<std::uint32_t>(r) * step;
    for (std::int64_t c = 0; c < columns; ++c) {
      out.row(r)[c] = static_cast<std::int32_t>(static_cast<std::uint32_t>(out.data[c]) + base);
    }
  }
  return out;
}

}  // namespace nkisim::isa
