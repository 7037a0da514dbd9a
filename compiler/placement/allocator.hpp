// Assigns addresses in one on-chip memory by the tensors' lifetimes, reusing freed space as late as
// possible.
//
// Reuse is what makes a later write wait for earlier reads, so the space that has been free longest
// is taken first (a rolling pointer): double buffering then works as in compiled kernels. Tensors
// with an explicit address keep it to the byte.
#pragma once

#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

namespace nkisim::compiler {

inline constexpr std::int64_t kAlign = 32;  // bytes; where tensors without an address may begin

/// One tensor to place; times are numbers of instructions, both ends included.
struct Item {
  std::uint32_t id = 0;
  std::int64_t bytes = 0;  // per partition
  std::int64_t start = 0, end = 0;
  std::int64_t address = -1;  // explicit address, -1: to be chosen

  [[nodiscard]] bool fixed() const { return address >= 0; }
  [[nodiscard]] bool meets(const Item& other) const {
    return start <= other.end && end >= other.start;
  }
};

struct Placement {
  std::vector<std::pair<std::uint32_t, std::int64_t>> addresses;  // by id, each item once
  std::int64_t peak = 0;  // the highest byte that a tensor ends at
};

/// An item without a place, and the items that live at the same time.
struct Shortage {
  Item item;
  std::vector<Item> live;
};

using Placing = std::variant<Placement, Shortage>;

struct AllocatorOptions {
  std::int64_t capacity = 0;  // bytes per partition
  std::int64_t bank = 0;      // bytes per partition of a PSUM bank; 0: SBUF
  bool strict = true;         // false: grows beyond the capacity
  bool thorough = true;       // largest first at last: time is quadratic in the items
};

/// Tries the rolling pointer first, then first fit, then (SBUF) large and small tiles apart, then,
/// if thorough, largest first unless more lives at a time than there is. A Shortage is the first
/// attempt's.
[[nodiscard]] Placing allocate(const std::vector<Item>& items, const AllocatorOptions& options);

/// Each item in order, `rolling` from where the previous one ends or always from 0: `items` ascend
/// by start, `fixed` have an address.
[[nodiscard]] Placing allocate_in_time_order(const std::vector<Item>& items,
                                             const std::vector<Item>& fixed, std::int64_t capacity,
                                             std::int64_t bank, bool rolling);

}  // namespace nkisim::compiler
