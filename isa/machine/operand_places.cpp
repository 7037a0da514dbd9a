// Finds where an operand's elements are, and loads and stores them as they are.
#include "isa/machine/operand_places.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "isa/machine/operand_walk.hpp"
#include "isa/program/bounds.hpp"
#include "isa/program/check.hpp"

namespace nkisim::isa {

namespace {

// out[i] = in[i] where `selected`, without a branch.
template <typename T>
void blend(std::byte* out, const std::byte* in, const std::uint8_t* selected, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    T a, b;
    std::memcpy(&a, out + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    std::memcpy(&b, in + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    a = selected[i] != 0 ? b : a;
    std::memcpy(out + i * static_cast<std::int64_t>(sizeof(T)), &a, sizeof(T));
  }
}

// Elements that the dimensions of a pattern span from `first` on. 0 if they may reach an element
// twice: a dimension's step lies within the span of the smaller ones.
std::int64_t span_of(const Pattern& pattern, std::size_t first) {
  std::vector<Dim> dims;
  for (std::size_t i = first; i < pattern.dims.size(); ++i) {
    const Dim& d = pattern.dims[i];
    if (d.num > 1) dims.push_back({std::abs(d.step), d.num});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.step < b.step; });
  std::int64_t last = 0;
  for (const Dim& d : dims) {
    if (d.step <= last) return 0;
    last += d.step * (d.num - 1);
  }
  return last + 1;
}

}  // namespace

std::int64_t OperandPlaces::offset_value(const DynamicOffset& d) {
  if (d.kind == DynamicOffset::Kind::kRegister) return state_.reg(d.reg);
  return static_cast<std::int32_t>(load_bits(*d.index).data[0]);
}

// Indices of a kVector or kIndirect offset, one per row or column; -1 where skipped. The index
// tile is read partition by partition first: down the rows for gathers, in groups for indirection.
std::vector<std::int64_t> OperandPlaces::indices(const TensorRef& ref, const DynamicOffset& d) {
  const Tile<std::uint32_t> index = load_bits(*d.index);
  const bool rows = d.kind == DynamicOffset::Kind::kVector;
  const std::int64_t count = rows ? ref.rows() : ref.columns();
  const std::int64_t group =
      rows ? std::max<std::int64_t>(index.rows, 1) : index_group(engine_ == Engine::kTensor);
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = (i % group) * index.columns + i / group;
    if (at >= index.size()) {  // check_gathers and check_index_count refuse it before
      fail(Rule::index_count, "index tensor", "of " + std::to_string(index.size()) + " indices",
           std::to_string(count) + " indices");
    }
    std::int64_t v = static_cast<std::int32_t>(index.data[at]);
    if (!within(d, v)) {
      if (!skip_out_of_bounds_) {
        throw Error::about(Rule::index_out_of_bounds,
                           "index " + std::to_string(i) + " of tensor " + program_.tensor(ref).name,
                           std::to_string(v), "an index in 0.." + std::to_string(d.limit - 1))
            .below(d.limit);
      }
      v = -1;
    } else if (v < 0 && rows && !skip_out_of_bounds_) {
      fail(Rule::index_out_of_bounds,
           "index " + std::to_string(i) + " of tensor " + program_.tensor(ref).name,
           std::to_string(v), "an index of 0 or more (or oob_mode skip)");
    }
    out.push_back(v);
  }
  return out;
}

OperandPlaces::Access OperandPlaces::access(const TensorRef& ref) {
  Access a{.place = memory_.place(ref)};
  const Tensor& tensor = program_.tensor(ref);
  a.extent = tensor.extent_bytes();
  a.row_base = a.place.start - ref.offset;
  const std::int64_t size = size_bytes(ref.dtype);
  const auto drop_all = [&] { a.row_index.assign(static_cast<std::size_t>(ref.rows()), -1); };
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    using Kind = DynamicOffset::Kind;
    if (d->kind == Kind::kVector) {
      a.row_index = indices(ref, *d);
      a.row_stride = d->stride * size;
      continue;
    }
    if (d->kind == Kind::kIndirect) {
      a.column_index = indices(ref, *d);
      a.column_stride = d->stride * size;
      continue;
    }
    const std::int64_t v = offset_value(*d);
    if (skip_out_of_bounds_ && !within(*d, v)) {
      drop_all();
      continue;
    }
    require_within(*d, v, tensor);
    a.place.start += strided(v, d->stride) * size;
  }
  // A scalar address out of bounds drops the whole transfer, not only the rows outside.
  const std::int64_t from = a.place.start - a.row_base;
  if (skip_out_of_bounds_ && a.row_index.empty() &&
      (from + ref.pattern->first * size < 0 || from + (ref.pattern->last + 1) * size > a.extent)) {
    drop_all();
  }
  return a;
}

void OperandPlaces::say_cut_off(const TensorRef& ref, std::int64_t row, std::int64_t index) {
  if (!warn_ || inst_ == nullptr) return;
  report(rules_.of_warning(Rule::row_cut_off), Rule::row_cut_off,
         "skips row " + std::to_string(row) + " of " + program_.tensor(ref).name +
             ": it begins within the tensor and ends behind it, though its index is " +
             std::to_string(index) + "; a row that fits is required");
}

OperandPlaces::InPlace OperandPlaces::in_place(const TensorRef& ref, bool write) {
  if (!ref.on_chip() || ref.dynamic != nullptr || !ref.pattern->contiguous) return {};
  const Placement place = memory_.place(ref);
  const std::int64_t row_base = place.start - ref.offset, count = ref.columns();
  for (std::int64_t r = 0; r < ref.rows(); ++r) {
    touch(ref, place, write ? Touch::kWrite : Touch::kRead,
          {place.start + r * place.pitch, count, size_bytes(ref.dtype), row_base + r * place.pitch,
           r});
  }
  return {place.region->data() + place.start, place.pitch};
}

std::int64_t OperandPlaces::find_foreign(const TensorRef& ref) {
  const Placement place = memory_.place(ref);
  const std::int64_t size = size_bytes(ref.dtype);
  std::int64_t found = -1;
  walk(ref, Touch::kSome, [&](const Run& run) {
    const std::int64_t dense = run.step_bytes == size ? run.count : 1;
    for (std::int64_t i = 0; i < run.count && found < 0; i += dense) {
      const std::int64_t byte = run.data - place.region->data() + i * run.step_bytes;
      found = place.region->find_foreign(byte, dense * size);
    }
  });
  if (found < 0 || place.pitch == 0) return found;
  return (found - (place.start - ref.offset)) % place.pitch;
}

void OperandPlaces::for_each_run(const TensorRef& ref, const std::function<void(const Run&)>& fn) {
  walk(ref, Touch::kSome, fn);
}

std::vector<std::byte*> OperandPlaces::element_places(const TensorRef& ref) {
  std::vector<std::byte*> places;
  memory_.require_memory(ref.elements() * static_cast<std::int64_t>(sizeof(std::byte*)),
                         "an operand");
  places.reserve(static_cast<std::size_t>(ref.elements()));
  walk(ref, Touch::kSome, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      places.push_back(run.data == nullptr ? nullptr : run.data + i * run.step_bytes);
    }
  });
  return places;
}

std::vector<std::int64_t> OperandPlaces::repeated_rows(const TensorRef& ref) {
  const Access a = access(ref);
  std::vector<std::int64_t> earlier(a.row_index.size(), -1);
  std::map<std::int64_t, std::int64_t> seen;  // index -> the first row that has it
  bool any = false;
  for (std::size_t r = 0; r < a.row_index.size(); ++r) {
    if (a.row_index[r] < 0) continue;
    const auto [at, fresh] = seen.try_emplace(a.row_index[r], static_cast<std::int64_t>(r));
    if (!fresh) earlier[r] = at->second;
    any |= !fresh;
  }
  if (!any) earlier.clear();
  return earlier;
}

// True if an operand may reach the same element twice. Ignores columns that indices in memory
// place.
bool OperandPlaces::may_repeat(const TensorRef& ref) {
  using Kind = DynamicOffset::Kind;
  if (find_dynamic(ref, Kind::kIndirect) != nullptr) return false;
  const DynamicOffset* rows = find_dynamic(ref, Kind::kVector);
  const std::int64_t span = span_of(*ref.pattern, rows == nullptr ? 0 : 1);
  if (rows == nullptr || span == 0) return span == 0;
  std::vector<std::int64_t> starts;
  for (const std::int64_t index : access(ref).row_index) {
    if (index >= 0) starts.push_back(index * std::abs(rows->stride));
  }
  std::sort(starts.begin(), starts.end());
  return std::adjacent_find(starts.begin(), starts.end(), [&](std::int64_t a, std::int64_t b) {
           return b - a < span;
         }) != starts.end();
}

bool OperandPlaces::comes_back(const TensorRef& ref) {
  if (!may_repeat(ref)) return false;
  std::vector<std::byte*> places = element_places(ref);
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

Tile<std::byte> OperandPlaces::load_raw(const TensorRef& ref) {
  const std::int64_t size = size_bytes(ref.dtype);
  Tile<std::byte> tile = make<std::byte>(ref.rows(), ref.columns() * size);
  std::byte* out = tile.data;
  walk(ref, Touch::kRead, [&](const Run& run) {
    const std::int64_t bytes = run.count * size;
    if (run.data == nullptr) {
      std::memset(out, 0, static_cast<std::size_t>(bytes));
    } else {
      walking::copy_elements(size, out, size, run.data, run.step_bytes, run.count);
    }
    out += bytes;
  });
  return tile;
}

void OperandPlaces::store_raw(const TensorRef& ref, const Tile<std::byte>& values) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::byte* in = values.data;
  walk(ref, Touch::kWrite, [&](const Run& run) {
    const std::int64_t bytes = run.count * size;
    if (run.data != nullptr)
      walking::copy_elements(size, run.data, run.step_bytes, in, size, run.count);
    in += bytes;
  });
}

void OperandPlaces::store_raw_where(const TensorRef& ref, const Tile<std::byte>& values,
                                    const Tile<std::uint8_t>& mask) {
  const std::int64_t size = size_bytes(ref.dtype);
  const Placement place = memory_.place(ref);
  const std::byte* in = values.data;
  const std::uint8_t* selected = mask.data;
  walk(ref, Touch::kSome, [&](const Run& run) {
    wrote_ = true;
    if (run.data != nullptr) {
      const std::int64_t at = run.data - place.region->data();
      const bool marked = run.step_bytes == size && marks_only_bits(ref.space) &&
                          place.bits->find_undefined(place.bit(at, run.row), run.count * size) < 0;
      if (marked && size == 4) {
        blend<std::uint32_t>(run.data, in, selected, run.count);
      } else if (marked && size == 2) {
        blend<std::uint16_t>(run.data, in, selected, run.count);
      } else {
        for (std::int64_t i = 0; i < run.count; ++i) {
          if (selected[i] == 0) continue;
          std::memcpy(run.data + i * run.step_bytes, in + i * size, static_cast<std::size_t>(size));
          mark_written(ref, place, run.row, at + i * run.step_bytes, size);
        }
      }
    }
    in += run.count * size;
    selected += run.count;
  });
}

Tile<std::uint32_t> OperandPlaces::load_bits(const TensorRef& ref) {
  const Tile<std::byte> raw = load_raw(ref);
  Tile<std::uint32_t> tile = make<std::uint32_t>(ref.rows(), ref.columns());
  decode_bits(ref.dtype, raw.data, static_cast<std::size_t>(tile.size()), tile.data);
  return tile;
}

void OperandPlaces::store_bits(const TensorRef& ref, const Tile<std::uint32_t>& values) {
  const std::int64_t size = size_bytes(ref.dtype);
  Tile<std::byte> raw = make<std::byte>(values.rows, values.columns * size);
  encode_bits(ref.dtype, values.data, static_cast<std::size_t>(values.size()), raw.data);
  store_raw(ref, raw);
}

OperandPlaces::DenseRows OperandPlaces::dense_rows(const TensorRef& ref) {
  if (ref.dynamic != nullptr) return {};
  DenseRows dense{{}, ref.rows(), ref.columns() * size_bytes(ref.dtype)};
  if (ref.on_chip()) {
    if (ref.pattern->contiguous) dense.place = memory_.place(ref);
    return dense;
  }
  const walking::RowShape shape = walking::row_shape(ref, 0);
  const bool one_run = shape.runs == 1 && (shape.inner.step == 1 || shape.inner.num == 1);
  if (!one_run || (dense.rows > 1 && shape.row_step < dense.row_bytes)) return dense;
  dense.place = memory_.place(ref);
  dense.place.pitch = shape.row_step;
  return dense;
}

// Row by row is the same as all at once if no row of dst is read later: the operands are apart, or
// the very same bytes.
bool OperandPlaces::may_stream(const DenseRows& dst, const DenseRows& src) {
  if (dst.place.region != src.place.region) return true;
  const std::int64_t pitch = dst.place.pitch;
  if (pitch <= 0 || pitch != src.place.pitch) return false;
  if (dst.place.start == src.place.start && dst.row_bytes == src.row_bytes) return true;
  const auto apart = [](std::int64_t a, std::int64_t a_size, std::int64_t b, std::int64_t b_size) {
    return a + a_size <= b || b + b_size <= a;
  };
  return apart(dst.place.start / pitch, dst.rows, src.place.start / pitch, src.rows) ||
         apart(dst.place.start % pitch, dst.row_bytes, src.place.start % pitch, src.row_bytes);
}

void OperandPlaces::check_defined(const DenseRows& dense) const {
  if (unwritten_ == Unwritten::kAllow || log_ != nullptr) return;
  const Placement& place = dense.place;
  for (std::int64_t r = 0; r < dense.rows; ++r) {
    const std::int64_t at = place.bit(place.start + r * place.pitch, r);
    if (place.bits->find_undefined(at, dense.row_bytes) >= 0) throw FoundUndefined{};
  }
}

void OperandPlaces::copy_raw(const TensorRef& dst, const TensorRef& src) {
  const DenseRows to = dense_rows(dst), from = dense_rows(src);
  if (to.place.region == nullptr || from.place.region == nullptr || !may_stream(to, from)) {
    return store_raw(dst, load_raw(src));
  }
  check_defined(from);
  wrote_ = true;
  for (std::int64_t r = 0; r < to.rows; ++r) {
    std::memmove(to.row(r), from.row(r), static_cast<std::size_t>(to.row_bytes));
    mark_written(dst, to.place, r, to.place.start + r * to.place.pitch, to.row_bytes);
  }
}

}  // namespace nkisim::isa
