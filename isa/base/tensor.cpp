// Computes sizes and shapes of tensors and of access patterns.

#include "isa/base/tensor.hpp"

#include <algorithm>
#include <array>

namespace nkisim::isa {

std::string_view name(Space space) {
  constexpr std::array<std::string_view, 3> kNames = {"hbm", "sbuf", "psum"};
  return kNames.at(static_cast<std::size_t>(space));
}

std::int64_t Tensor::elements() const {
  std::int64_t n = 1;
  for (std::int64_t s : shape) n *= s;
  return n;
}

std::int64_t Tensor::extent_bytes() const {
  if (space == Space::kHbm || shape.empty() || shape[0] == 0) return elements() * size_bytes(dtype);
  std::int64_t n = size_bytes(dtype);
  for (std::size_t d = 1; d < shape.size(); ++d) n *= shape[d];
  return n;
}

Pattern make_pattern(std::vector<Dim> dims) {
  Pattern p;
  p.dims = std::move(dims);
  std::int64_t run = 1;
  for (auto it = p.dims.rbegin(); it != p.dims.rend(); ++it) {
    if (it->num != 1 && it->step != run) p.contiguous = false;
    run *= it->num;
    p.elements *= it->num;
    const std::int64_t reach = it->step * std::max<std::int64_t>(it->num - 1, 0);
    (reach < 0 ? p.first : p.last) += reach;
  }
  return p;
}

std::vector<Dim> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<Dim> dims(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    dims[i] = {step, shape[i]};
    step *= shape[i];
  }
  return dims;
}

std::int64_t TensorRef::rows() const {
  if (on_chip()) return partitions;
  return pattern->dims.size() < 2 ? 1 : pattern->dims.front().num;
}

std::int64_t TensorRef::columns() const {
  if (on_chip()) return pattern->elements;
  const std::int64_t r = rows();
  return r == 0 ? 0 : pattern->elements / r;
}

std::vector<std::int64_t> TensorRef::shape() const {
  std::vector<std::int64_t> s;
  if (on_chip()) s.push_back(partitions);
  for (const Dim& d : pattern->dims) s.push_back(d.num);
  return s;
}

}  // namespace nkisim::isa
