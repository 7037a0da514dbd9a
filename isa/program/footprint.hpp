// Describes the bytes that an operand touches, in a form that decides overlap without listing them.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "isa/program/core_state.hpp"
#include "isa/program/program.hpp"

namespace nkisim::isa {

/// A set of bytes: `run` bytes repeated along strided dimensions, on a range of partitions. On chip
/// offsets are within a partition; in HBM within the tensor.
struct Footprint {
  static constexpr int kMaxDims = 6;
  struct Dim {
    std::int64_t stride = 0;  // bytes, positive
    std::int64_t count = 0;
    bool operator==(const Dim&) const = default;
  };
  std::int64_t first = 0, last = 0;  // bounding bytes [first, last)
  std::int64_t run = 0;
  std::int32_t partition = 0, partition_end = 1;
  std::int32_t dim_count = 0;
  std::array<Dim, kMaxDims> dims{};
  [[nodiscard]] bool dense() const { return dim_count == 0; }
};

/// Sets `f` to the footprint of an operand whose register offsets have the values in `state`;
/// dims beyond dim_count are left as they are. Offsets known only in memory widen it to the whole
/// tensor.
void find_footprint(const TensorRef& ref, const Program& program, const CoreState& state,
                    Footprint& f);

/// The same before anything has run: register offsets, too, widen it to the whole tensor.
[[nodiscard]] Footprint static_footprint(const TensorRef& ref, const Program& program);

/// The bytes [first, last) of its tensor that an on-chip operand certainly reaches in every
/// partition of it; none if it has gaps, partitions of its own choice, or an address known at run
/// time.
struct ReachedBytes {
  std::int64_t first = 0, last = 0;
  [[nodiscard]] bool none() const { return first == last; }
};
[[nodiscard]] ReachedBytes reached_bytes(const TensorRef& ref, const Program& program);
/// True if the operand reaches all bytes of its tensor, in any type.
[[nodiscard]] bool reaches_all(const TensorRef& ref, const Program& program);
/// True if an operand is its tensor: all of it, in the tensor's own order and type.
[[nodiscard]] bool is_whole(const TensorRef& ref, const Program& program);

/// The buckets of `pitch` bytes, of `count`, that a footprint touches, first and last. Addresses
/// beyond the capacity (where that is allowed) share the last bucket.
struct BucketRange {
  std::size_t from, to;  // inclusive
};
[[nodiscard]] inline BucketRange bucket_range(const Footprint& f, std::int64_t pitch,
                                              std::size_t count) {
  const auto bucket = [&](std::int64_t byte) {
    const auto last = static_cast<std::int64_t>(count) - 1;
    return static_cast<std::size_t>(std::clamp<std::int64_t>(byte / pitch, 0, last));
  };
  return {bucket(f.first), bucket(f.last - 1)};
}
/// The bytes [first, last) that bucket `b` of these stands for.
struct BucketBytes {
  std::int64_t first, last;
};
[[nodiscard]] inline BucketBytes bucket_bytes(std::size_t b, std::int64_t pitch,
                                              std::size_t count) {
  const std::int64_t first = static_cast<std::int64_t>(b) * pitch;
  return {first, b + 1 == count ? std::numeric_limits<std::int64_t>::max() : first + pitch};
}

/// False only if the two certainly share no byte.
[[nodiscard]] bool may_overlap(const Footprint& a, const Footprint& b);
/// True only if `outer` certainly contains all of `inner` within bytes [first, last).
[[nodiscard]] bool covers(const Footprint& outer, const Footprint& inner, std::int64_t first,
                          std::int64_t last);

}  // namespace nkisim::isa
