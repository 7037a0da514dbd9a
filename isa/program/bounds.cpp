// Checks resolved addresses of operands against their tensors.

#include "isa/program/bounds.hpp"

#include <string>

namespace nkisim::isa {

void require_within(const DynamicOffset& d, std::int64_t value, const Tensor& tensor) {
  if (within(d, value)) return;
  fail(Rule::offset_out_of_bounds, "dynamic offset of tensor " + tensor.name, std::to_string(value),
       "an index in 0.." + std::to_string(d.limit - 1));
}

void require_inside(const TensorRef& ref, const Tensor& tensor, std::int64_t first,
                    std::int64_t last) {
  const std::int64_t extent = tensor.extent_bytes();
  if (first >= 0 && last <= extent) return;
  fail(Rule::access_out_of_bounds, "access to tensor " + tensor.name,
       "at bytes " + std::to_string(first) + ".." + std::to_string(last),
       "an address within its " + std::to_string(extent) + " bytes" +
           (ref.on_chip() ? " per partition" : ""));
}

}  // namespace nkisim::isa
