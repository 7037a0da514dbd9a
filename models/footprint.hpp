// The bytes an operand touches, in a form whose overlap can be decided without enumerating them.
#pragma once

#include <array>

#include "isa/eval.hpp"
#include "isa/program.hpp"

namespace nkisim::models {

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
void find_footprint(const isa::TensorRef& ref, const isa::Program& program,
                    const isa::CoreState& state, Footprint& f);

/// The same before anything has run: register offsets, too, widen it to the whole tensor.
[[nodiscard]] Footprint static_footprint(const isa::TensorRef& ref, const isa::Program& program);

/// False only if the two certainly share no byte.
[[nodiscard]] bool may_overlap(const Footprint& a, const Footprint& b);
/// True only if `outer` certainly contains all of `inner` within bytes [first, last).
[[nodiscard]] bool covers(const Footprint& outer, const Footprint& inner, std::int64_t first,
                          std::int64_t last);

}  // namespace nkisim::models
