// Pairs the equal elements of two sequences of names, such as two lists of opcodes.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace nkisim {

/// Pairs of positions with equal names, increasing on both sides, of a shortest edit script
/// (Myers 1986). Sequences that differ in more than `max_edits` places are aligned exactly up to
/// where the limit is reached.
[[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> align(
    const std::vector<std::string_view>& a, const std::vector<std::string_view>& b,
    std::size_t max_edits = 4000);

}  // namespace nkisim
