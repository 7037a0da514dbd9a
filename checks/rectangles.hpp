// Declares rectangles of a tensor: places of an operand as rows and columns, and their differences.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/program/footprint.hpp"

namespace nkisim::checks {

/// Rows are partitions, or rows of a tensor in HBM; columns are bytes.
struct Rect {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
  bool operator==(const Rect&) const = default;
};

/// The bytes of an operand, if they are one rectangle.
[[nodiscard]] std::optional<Rect> rectangle(const isa::TensorRef& ref, const isa::Footprint& f,
                                            const isa::Tensor& tensor);
[[nodiscard]] bool meet(const Rect& a, const Rect& b);
/// Takes `gone` out of `left`.
void subtract(std::vector<Rect>& left, const Rect& gone);

}  // namespace nkisim::checks
