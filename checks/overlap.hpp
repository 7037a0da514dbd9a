// Finds the bytes that two operands share: exactly, except for very large access patterns.
//
// A footprint is all bytes that an operand touches. A run is a stretch of bytes without gaps.
#pragma once

#include <optional>

#include "isa/program/footprint.hpp"

namespace nkisim::checks {

/// Bytes [first, last) on partitions [partition, partition_end): within a partition on chip, within
/// the tensor in HBM.
struct Bytes {
  std::int64_t first = 0, last = 0;
  std::int32_t partition = 0, partition_end = 1;
};

/// The bounds of what two footprints share; empty if they share no byte. Footprints of more than
/// some 100,000 runs are compared as isa::may_overlap does.
[[nodiscard]] std::optional<Bytes> shared_bytes(const isa::Footprint& a, const isa::Footprint& b);

}  // namespace nkisim::checks
