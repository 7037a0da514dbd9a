// Says what is within a tensor when the registers of an address have their values, and what is
// wrong with an operand that is not.
#pragma once

#include <cstdint>

#include "isa/base/inst.hpp"

namespace nkisim::isa {

/// `value`, of dynamic offset `d`, is one of those that `d` may have.
[[nodiscard]] inline bool within(const DynamicOffset& d, std::int64_t value) {
  return d.limit <= 0 || (value >= 0 && value < d.limit);
}
/// Throws Error (offset_out_of_bounds) if it is not.
void require_within(const DynamicOffset& d, std::int64_t value, const Tensor& tensor);
/// Throws Error (access_out_of_bounds) if bytes `first` to before `last` of `tensor`, on chip of
/// each of its partitions, are not all its own.
void require_inside(const TensorRef& ref, const Tensor& tensor, std::int64_t first,
                    std::int64_t last);

}  // namespace nkisim::isa
