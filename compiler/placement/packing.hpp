// Packs SBUF tensors of at most 64 partitions next to each other, if the plain placement fails.
//
// A tensor of at most 64 partitions may lie at partition 0 or 64, one of at most 32 also at 32 and
// 96, together with those it meets in instructions that want the same start (partitions.hpp).
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/placement/allocator.hpp"

namespace nkisim::compiler {

/// A tensor to place, and where its partitions may be.
struct NarrowItem {
  Item item;
  std::int32_t group = -1;  // all of a group start at one partition; -1: stays
  std::int64_t partition = 0, rows = 0;
};

struct Packed {
  Placement placement;
  std::vector<std::pair<std::uint32_t, std::uint16_t>> starts;  // partitions, of those in groups
};

/// Places `items` (explicit addresses stay) within `capacity` bytes per partition. Groups go where
/// least is filled at the time; then the largest are placed first, and what does not fit is placed
/// earlier in the next attempt. Time is quadratic in the number of items. A Shortage is the first
/// attempt's.
[[nodiscard]] std::variant<Packed, Shortage> pack(const std::vector<NarrowItem>& items,
                                                  std::int64_t capacity);

}  // namespace nkisim::compiler
