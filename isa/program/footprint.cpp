// Finds the bytes that an operand touches, and decides if two operands overlap.

#include "isa/program/footprint.hpp"

#include <algorithm>
#include <cstdlib>

namespace nkisim::isa {
namespace {

void whole_tensor(Footprint& f, const Tensor& tensor, const TensorRef& ref) {
  f.first = tensor.space == Space::kHbm ? 0 : tensor.address;
  f.last = f.first + tensor.extent_bytes();
  f.run = f.last - f.first;
  f.dim_count = 0;
  if (ref.on_chip()) {
    f.partition = tensor.partition;
    f.partition_end = tensor.partition + static_cast<std::int32_t>(tensor.shape.at(0));
  }
}

void add_dims(Footprint& f, const Pattern& pattern, std::int64_t element) {
  f.run = element;
  for (auto d = pattern.dims.rbegin(); d != pattern.dims.rend(); ++d) {
    const std::int64_t stride = std::abs(d->step) * element;
    if (d->num <= 1 || stride == 0) continue;
    if (f.dim_count == 0 && stride <= f.run) {
      f.run += stride * (d->num - 1);
    } else if (f.dim_count == Footprint::kMaxDims) {
      f.run = f.last - f.first;
      f.dim_count = 0;
      return;
    } else {
      f.dims.at(static_cast<std::size_t>(f.dim_count++)) = {stride, d->num};
    }
  }
}

// Bytes [start, start + span) modulo `period` hold everything f touches, modulo `period`.
struct Residue {
  std::int64_t start, span;
};
Residue residue(const Footprint& f, std::int64_t period) {
  std::int64_t span = f.run;
  for (int i = 0; i < f.dim_count; ++i) {
    const auto& d = f.dims.at(static_cast<std::size_t>(i));
    if (d.stride % period != 0) span += d.stride * (d.count - 1);
  }
  return {f.first % period, span};
}

bool disjoint_modulo(const Footprint& a, const Footprint& b, std::int64_t period) {
  const Residue x = residue(a, period), y = residue(b, period);
  const std::int64_t from_x = (y.start - x.start + period) % period;
  return from_x >= x.span && from_x + y.span <= period;
}

bool disjoint_by_strides(const Footprint& a, const Footprint& b, const Footprint& periods) {
  for (int i = 0; i < periods.dim_count; ++i) {
    const std::int64_t period = periods.dims.at(static_cast<std::size_t>(i)).stride;
    if (disjoint_modulo(a, b, period)) return true;
  }
  return false;
}

}  // namespace

void find_footprint(const TensorRef& ref, const Program& program, const CoreState& state,
                    Footprint& f) {
  const Tensor& tensor = program.tensor(ref);
  const std::int64_t element = size_bytes(ref.dtype);
  f.partition = ref.on_chip() ? ref.partition : 0;
  f.partition_end = ref.on_chip() ? ref.partition + ref.partitions : 1;
  f.dim_count = 0;
  std::int64_t start = ref.offset + (ref.on_chip() ? tensor.address : 0);
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    if (d->kind != DynamicOffset::Kind::kRegister) {
      whole_tensor(f, tensor, ref);
      return;
    }
    start += strided(state.reg(d->reg), d->stride) * element;
  }
  f.first = start + ref.pattern->first * element;
  f.last = start + (ref.pattern->last + 1) * element;
  add_dims(f, *ref.pattern, element);
}

Footprint static_footprint(const TensorRef& ref, const Program& program) {
  static const CoreState kNoState;
  Footprint f;
  if (ref.dynamic == nullptr) {
    find_footprint(ref, program, kNoState, f);
  } else {
    whole_tensor(f, program.tensor(ref), ref);
  }
  return f;
}

ReachedBytes reached_bytes(const TensorRef& ref, const Program& program) {
  const Tensor& t = program.tensor(ref);
  if (ref.dynamic != nullptr || ref.partition != t.partition || ref.partitions != t.shape[0]) {
    return {};
  }
  const Footprint f = static_footprint(ref, program);
  return f.dense() ? ReachedBytes{f.first - t.address, f.last - t.address} : ReachedBytes{};
}

bool reaches_all(const TensorRef& ref, const Program& program) {
  const ReachedBytes reached = reached_bytes(ref, program);
  return reached.last - reached.first == program.tensor(ref).extent_bytes();
}

bool is_whole(const TensorRef& ref, const Program& program) {
  return ref.pattern->contiguous && ref.dtype == program.tensor(ref).dtype &&
         reaches_all(ref, program);
}

bool may_overlap(const Footprint& a, const Footprint& b) {
  if (a.partition >= b.partition_end || b.partition >= a.partition_end) return false;
  if (a.first >= b.last || b.first >= a.last) return false;
  if (a.dense() && b.dense()) return true;
  return !disjoint_by_strides(a, b, a) && !disjoint_by_strides(a, b, b);
}

bool covers(const Footprint& outer, const Footprint& inner, std::int64_t first, std::int64_t last) {
  if (outer.partition > inner.partition || outer.partition_end < inner.partition_end) return false;
  if (outer.dense()) {
    return outer.first <= std::max(first, inner.first) && outer.last >= std::min(last, inner.last);
  }
  return outer.first == inner.first && outer.last == inner.last && outer.run == inner.run &&
         outer.dim_count == inner.dim_count &&
         std::equal(outer.dims.begin(), outer.dims.begin() + outer.dim_count, inner.dims.begin());
}

}  // namespace nkisim::isa
