// Implements rectangles.hpp: cuts the rectangle of an operand out of others.
#include "checks/rectangles.hpp"

#include <utility>

namespace nkisim::checks {

std::optional<Rect> rectangle(const isa::TensorRef& ref, const isa::Footprint& f,
                              const isa::Tensor& tensor) {
  if (ref.on_chip()) {
    if (!f.dense()) return std::nullopt;
    return Rect{f.partition, f.partition_end - f.partition, f.first, f.last - f.first};
  }
  const std::int64_t pitch = tensor.shape.back() * isa::size_bytes(tensor.dtype);
  const Rect from{f.first / pitch, 1, f.first % pitch, f.run};
  if (f.dense()) {
    if (from.column + f.run <= pitch) return from;
    if (from.column != 0 || f.run % pitch != 0) return std::nullopt;
    return Rect{from.row, f.run / pitch, 0, pitch};
  }
  if (f.dim_count != 1 || f.dims[0].stride != pitch || from.column + f.run > pitch) {
    return std::nullopt;
  }
  return Rect{from.row, f.dims[0].count, from.column, f.run};
}

bool meet(const Rect& a, const Rect& b) {
  return std::max(a.row, b.row) < std::min(a.row + a.rows, b.row + b.rows) &&
         std::max(a.column, b.column) < std::min(a.column + a.columns, b.column + b.columns);
}

void subtract(std::vector<Rect>& left, const Rect& gone) {
  std::vector<Rect> rest;
  for (const Rect& r : left) {
    const std::int64_t top = std::max(r.row, gone.row);
    const std::int64_t bottom = std::min(r.row + r.rows, gone.row + gone.rows);
    const std::int64_t begin = std::max(r.column, gone.column);
    const std::int64_t end = std::min(r.column + r.columns, gone.column + gone.columns);
    if (top >= bottom || begin >= end) {
      rest.push_back(r);
      continue;
    }
    if (r.row < top) rest.push_back({r.row, top - r.row, r.column, r.columns});
    if (bottom < r.row + r.rows) {
      rest.push_back({bottom, r.row + r.rows - bottom, r.column, r.columns});
    }
    if (r.column < begin) rest.push_back({top, bottom - top, r.column, begin - r.column});
    if (end < r.column + r.columns) {
      rest.push_back({top, bottom - top, end, r.column + r.columns - end});
    }
  }
  left = std::move(rest);
}

}  // namespace nkisim::checks
