// Visits the elements of an operand in order. Only the files of EvalContext's parts use it.
#pragma once

#include <algorithm>
#include <cstring>

#include "isa/machine/operand_places.hpp"
#include "isa/program/bounds.hpp"

namespace nkisim::isa {

/// An operand with its dynamic offsets resolved: where each row and column really is.
struct OperandPlaces::Access {
  Placement place;
  std::int64_t extent = 0;                   // bytes a row may use, from the tensor's row start
  std::int64_t row_base = 0;                 // byte of row 0's tensor start inside the region
  std::vector<std::int64_t> row_index{};     // kVector: source row per row, -1 = skipped
  std::vector<std::int64_t> column_index{};  // kIndirect: column per column
  std::int64_t row_stride = 0;               // kVector: bytes per index unit
  std::int64_t column_stride = 0;            // kIndirect: bytes per index unit
};

namespace walking {

// The pattern of a row as an inner run of evenly spaced elements inside outer dimensions.
struct RowShape {
  Dim inner{1, 1};
  std::vector<Dim> outer;
  std::int64_t runs = 1;
  std::int64_t row_step = 0;  // bytes between rows
};

inline RowShape row_shape(const TensorRef& ref, std::int64_t pitch) {
  RowShape shape{.outer = ref.pattern->dims, .row_step = pitch};
  std::vector<Dim>& dims = shape.outer;
  if (!ref.on_chip() && dims.size() >= 2) {
    shape.row_step = dims.front().step * size_bytes(ref.dtype);
    dims.erase(dims.begin());
  }
  // Merge inner dimensions that continue each other, so that a row-major tile is one run.
  while (!dims.empty()) {
    const Dim d = dims.back();
    if (shape.inner.num == 1) {
      shape.inner = d;
    } else if (d.step == shape.inner.step * shape.inner.num) {
      shape.inner.num *= d.num;
    } else if (d.num != 1) {
      break;
    }
    dims.pop_back();
  }
  for (const Dim& d : dims) shape.runs *= d.num;
  return shape;
}

// Steps an odometer over the outer dimensions; returns the byte offset change.
inline std::int64_t advance(const std::vector<Dim>& dims, std::vector<std::int64_t>& at,
                            std::int64_t size) {
  std::int64_t moved = 0;
  for (std::size_t d = dims.size(); d-- > 0;) {
    moved += dims[d].step * size;
    if (++at[d] < dims[d].num) break;
    moved -= dims[d].step * dims[d].num * size;
    at[d] = 0;
  }
  return moved;
}

template <typename T>
void copy_strided(std::byte* out, std::int64_t out_step, const std::byte* in, std::int64_t in_step,
                  std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * out_step, in + i * in_step, sizeof(T));
  }
}

// Copies `count` elements of `size` bytes between two evenly spaced places. A fixed size lets the
// compiler make each copy a load and a store.
inline void copy_elements(std::int64_t size, std::byte* out, std::int64_t out_step,
                          const std::byte* in, std::int64_t in_step, std::int64_t count) {
  if (out_step == size && in_step == size) {
    std::memcpy(out, in, static_cast<std::size_t>(count * size));
  } else if (size == 1) {
    copy_strided<std::uint8_t>(out, out_step, in, in_step, count);
  } else if (size == 2) {
    copy_strided<std::uint16_t>(out, out_step, in, in_step, count);
  } else if (size == 8) {
    copy_strided<std::uint64_t>(out, out_step, in, in_step, count);
  } else {
    copy_strided<std::uint32_t>(out, out_step, in, in_step, count);
  }
}

}  // namespace walking

// Calls fn(Run) for every maximal run of equally spaced elements, in element order, row by row.
template <typename Fn>
void OperandPlaces::walk(const TensorRef& ref, Touch how, Fn&& fn) {
  const Access a = access(ref);
  const std::int64_t size = size_bytes(ref.dtype), rows = ref.rows();
  const walking::RowShape shape = walking::row_shape(ref, a.place.pitch);
  const bool bounded = ref.dynamic != nullptr;
  const std::int64_t pitch = ref.on_chip() ? a.place.pitch : 0;
  skipped_.clear();
  if (!a.row_index.empty()) skipped_.assign(static_cast<std::size_t>(rows), false);

  const auto skip_row = [&](std::int64_t r) {
    for (std::int64_t o = 0; o < shape.runs; ++o) fn(Run{nullptr, shape.inner.num, size, r});
  };
  const auto emit = [&](std::int64_t r, std::int64_t byte, std::int64_t count, std::int64_t step) {
    const std::int64_t row_start = a.row_base + r * pitch;
    const std::int64_t last = byte + step * (count - 1);
    const std::int64_t lo = std::min(byte, last), hi = std::max(byte, last) + size;
    if (bounded && (lo < row_start || hi > row_start + a.extent)) {
      require_inside(ref, program_.tensor(ref), lo - row_start, hi - row_start);
    }
    touch(ref, a.place, how, {byte, count, step, row_start, r});
    fn(Run{a.place.region->data() + byte, count, step, r});
  };
  const auto row_fits = [&](std::int64_t start) {  // of a gathered HBM row
    const std::int64_t from = start - a.row_base;
    const std::int64_t top = ref.pattern->dims.empty() ? 0 : ref.pattern->dims.front().step;
    const std::int64_t rest = ref.pattern->last - top * (rows - 1);
    return from >= 0 && from + (rest + 1) * size <= a.extent;
  };

  std::vector<std::int64_t> at(shape.outer.size(), 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    std::int64_t byte = a.place.start + r * shape.row_step;
    if (!a.row_index.empty()) {
      byte = a.place.start + a.row_index[row] * a.row_stride;
      const bool outside = skip_out_of_bounds_ && !row_fits(byte);
      skipped_[row] = a.row_index[row] < 0 || outside;
      if (a.row_index[row] >= 0 && outside && byte < a.row_base + a.extent) {
        say_cut_off(ref, r, a.row_index[row]);
      }
      if (skipped_[row]) {
        skip_row(r);
        continue;
      }
    }
    if (!a.column_index.empty()) {
      for (std::int64_t index : a.column_index) emit(r, byte + index * a.column_stride, 1, size);
      continue;
    }
    std::fill(at.begin(), at.end(), 0);
    for (std::int64_t o = 0; o < shape.runs; ++o) {
      emit(r, byte, shape.inner.num, shape.inner.step * size);
      byte += walking::advance(shape.outer, at, size);
    }
  }
}

}  // namespace nkisim::isa
