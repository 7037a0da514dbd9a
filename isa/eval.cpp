#include "isa/eval.hpp"

#include <algorithm>
#include <cstring>

#include "isa/check.hpp"

namespace nkisim::isa {

std::int32_t CoreState::reg(std::int64_t id) const {
  const auto i = static_cast<std::size_t>(id);
  return i < registers.size() ? registers[i] : 0;
}

void CoreState::set_reg(std::int64_t id, std::int32_t value) {
  const auto i = static_cast<std::size_t>(id);
  if (i >= registers.size()) registers.resize(i + 1);
  registers[i] = value;
}

namespace {

template <typename T>
void copy_strided(std::byte* out, std::int64_t out_step, const std::byte* in, std::int64_t in_step,
                  std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * out_step, in + i * in_step, sizeof(T));
  }
}

// Copies `count` elements of `size` bytes between two evenly spaced places. A fixed size lets the
// compiler turn each copy into a load and a store.
void copy_elements(std::int64_t size, std::byte* out, std::int64_t out_step, const std::byte* in,
                   std::int64_t in_step, std::int64_t count) {
  if (out_step == size && in_step == size) {
    std::memcpy(out, in, static_cast<std::size_t>(count * size));
  } else if (size == 1) {
    copy_strided<std::uint8_t>(out, out_step, in, in_step, count);
  } else if (size == 2) {
    copy_strided<std::uint16_t>(out, out_step, in, in_step, count);
  } else {
    copy_strided<std::uint32_t>(out, out_step, in, in_step, count);
  }
}

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

}  // namespace

/// An operand with its dynamic offsets resolved: where each row and column really is.
struct EvalContext::Access {
  Placement place;
  std::int64_t extent = 0;                   // bytes a row may use, from the tensor's row start
  std::int64_t row_base = 0;                 // byte of row 0's tensor start inside the region
  std::vector<std::int64_t> row_index{};     // kVector: source row per row, -1 = skipped
  std::vector<std::int64_t> column_index{};  // kIndirect: column per column
  std::int64_t row_stride = 0;               // kVector: bytes per index unit
  std::int64_t column_stride = 0;            // kIndirect: bytes per index unit
};

EvalContext::EvalContext(const Program& program, Memory& memory, CoreState& state,
                         Unwritten unwritten)
    : program_(program), memory_(memory), state_(state), unwritten_(unwritten) {}
EvalContext::~EvalContext() = default;

template <typename Fn>
void EvalContext::locating(const Inst& inst, Fn&& fn) {
  block_ = used_ = 0;
  skipped_.clear();
  skip_out_of_bounds_ = false;
  engine_ = inst.engine;
  try {
    fn();
  } catch (Error& e) {
    e.at(spec(inst).name, inst.loc);
    program_.locate(e);
    throw;
  }
}

void EvalContext::run(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.eval == nullptr) return;
  locating(inst, [&] { op.eval(inst, *this); });
}

void EvalContext::run(const Inst& inst, const Parcel* received) {
  received_ = received;
  run(inst);
  received_ = nullptr;
}

Parcel EvalContext::send(const Inst& inst) {
  const OpSpec& op = spec(inst);
  Parcel parcel;
  if (op.send != nullptr) locating(inst, [&] { parcel = op.send(inst, *this); });
  return parcel;
}

void* EvalContext::scratch(std::size_t bytes) {
  constexpr std::size_t kAlign = 64, kBlock = std::size_t{1} << 20U;
  bytes = (bytes + kAlign - 1) / kAlign * kAlign;
  while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].size) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    const std::size_t size = std::max(bytes, kBlock);
    // make_unique would zero the block; tiles are written before they are read.
    blocks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[size + kAlign]), size});
    used_ = 0;
  }
  std::byte* base = blocks_[block_].data.get();
  const auto misfit = reinterpret_cast<std::uintptr_t>(base) % kAlign;
  std::byte* p = base + (misfit == 0 ? 0 : kAlign - misfit) + used_;
  used_ += bytes;
  return p;
}

std::int64_t EvalContext::offset_value(const DynamicOffset& d) {
  if (d.kind == DynamicOffset::Kind::kRegister) return state_.reg(d.reg);
  return static_cast<std::int32_t>(load_bits(*d.index).data[0]);
}

// Indices of a kVector or kIndirect offset, one per row or column; -1 where skipped. The index
// tile is read partition by partition first: down the rows for gathers, in groups for indirection.
std::vector<std::int64_t> EvalContext::indices(const TensorRef& ref, const DynamicOffset& d) {
  const Tile<std::uint32_t> index = load_bits(*d.index);
  const bool rows = d.kind == DynamicOffset::Kind::kVector;
  const std::int64_t count = rows ? ref.rows() : ref.columns();
  const std::int64_t group =
      rows ? std::max<std::int64_t>(index.rows, 1) : index_group(engine_ == Engine::kTensor);
  std::vector<std::int64_t> out;
  out.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = (i % group) * index.columns + i / group;
    if (at >= index.size()) {
      fail("index tensor", "of " + std::to_string(index.size()) + " indices",
           std::to_string(count) + " indices");
    }
    std::int64_t v = static_cast<std::int32_t>(index.data[at]);
    if (d.limit > 0 && (v < 0 || v >= d.limit)) {
      if (!skip_out_of_bounds_) {
        fail("index " + std::to_string(i) + " of tensor " + program_.tensor(ref).name,
             std::to_string(v), "an index in 0.." + std::to_string(d.limit - 1));
      }
      v = -1;
    }
    out.push_back(v);
  }
  return out;
}

EvalContext::Access EvalContext::access(const TensorRef& ref) {
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
    if (d->limit > 0 && (v < 0 || v >= d->limit)) {
      if (!skip_out_of_bounds_) {
        fail("dynamic offset of tensor " + tensor.name, std::to_string(v),
             "an index in 0.." + std::to_string(d->limit - 1));
      }
      drop_all();
      continue;
    }
    a.place.start += v * d->stride * size;
  }
  // A scalar address out of bounds drops the whole transfer, not only the rows outside.
  const std::int64_t from = a.place.start - a.row_base;
  if (skip_out_of_bounds_ && a.row_index.empty() &&
      (from + ref.pattern->first * size < 0 || from + (ref.pattern->last + 1) * size > a.extent)) {
    drop_all();
  }
  return a;
}

void EvalContext::fail_out_of_bounds(const TensorRef& ref, std::int64_t first, std::int64_t last,
                                     std::int64_t extent) const {
  fail("access to tensor " + program_.tensor(ref).name,
       "at bytes " + std::to_string(first) + ".." + std::to_string(last),
       "an address within its " + std::to_string(extent) + " bytes" +
           (ref.on_chip() ? " per partition" : ""));
}

void EvalContext::fail_unwritten(const TensorRef& ref, std::int64_t byte,
                                 std::int64_t partition) const {
  const Tensor& t = program_.tensor(ref);
  std::string where = "byte " + std::to_string(byte) + " of tensor " + t.name;
  if (ref.on_chip()) where += " on partition " + std::to_string(partition);
  if (t.line != 0 && t.file > 0 && t.file <= program_.files().size()) {
    where += " (allocated at " + program_.files()[t.file - 1] + ":" + std::to_string(t.line) + ")";
  }
  fail("read of " + where + ", which was never written; write it first, or allow unwritten reads");
}

bool EvalContext::tracks_origin(Space space) const {
  return space == Space::kPsum && machine().generation < Generation::kV4;
}

void EvalContext::mark_written(Region& region, Space space, std::int64_t first,
                               std::int64_t count) {
  region.mark_written(first, count);
  if (tracks_origin(space)) region.mark_foreign(first, count, engine_ != Engine::kTensor);
}

// Checks or marks the elements of a run inside `region`.
void EvalContext::touch(const TensorRef& ref, Region& region, Touch how, const RunPlace& run) {
  const bool check = how == Touch::kRead && unwritten_ == Unwritten::kError;
  if (!check && how != Touch::kWrite) return;
  const std::int64_t size = size_bytes(ref.dtype);
  const bool dense = run.step == size || run.count == 1;
  if (how == Touch::kWrite && dense) {
    mark_written(region, ref.space, run.byte, run.count * size);
    return;
  }
  // A spread-out run inside a fully written span needs no look at each element.
  const std::int64_t last = run.byte + run.step * (run.count - 1);
  const std::int64_t lo = std::min(run.byte, last), hi = std::max(run.byte, last) + size;
  const bool fresh = region.find_unwritten(lo, hi - lo) >= 0;
  if (how == Touch::kWrite) {
    if (!fresh && !tracks_origin(ref.space)) return;
    for (std::int64_t i = 0; i < run.count; ++i) {
      mark_written(region, ref.space, run.byte + i * run.step, size);
    }
    return;
  }
  for (std::int64_t i = 0; i < run.count && fresh; ++i) {
    const std::int64_t hole = region.find_unwritten(run.byte + i * run.step, size);
    if (hole >= 0) fail_unwritten(ref, hole - run.row_start, ref.partition + run.row);
  }
}

namespace {

// The pattern of a row as an inner run of evenly spaced elements inside outer dimensions.
struct RowShape {
  Dim inner{1, 1};
  std::vector<Dim> outer;
  std::int64_t runs = 1;
  std::int64_t row_step = 0;  // bytes between rows
};

RowShape row_shape(const TensorRef& ref, std::int64_t pitch) {
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
std::int64_t advance(const std::vector<Dim>& dims, std::vector<std::int64_t>& at,
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

}  // namespace

// Calls fn(Run) for every maximal run of equally spaced elements, in element order, row by row.
template <typename Fn>
void EvalContext::walk(const TensorRef& ref, Touch how, Fn&& fn) {
  const Access a = access(ref);
  const std::int64_t size = size_bytes(ref.dtype), rows = ref.rows();
  const RowShape shape = row_shape(ref, a.place.pitch);
  const bool bounded = ref.dynamic != nullptr;
  const std::int64_t pitch = ref.on_chip() ? a.place.pitch : 0;
  Region& region = *a.place.region;
  skipped_.clear();
  if (!a.row_index.empty()) skipped_.assign(static_cast<std::size_t>(rows), false);

  const auto skip_row = [&] {
    for (std::int64_t o = 0; o < shape.runs; ++o) fn(Run{nullptr, shape.inner.num, size});
  };
  const auto emit = [&](std::int64_t r, std::int64_t byte, std::int64_t count, std::int64_t step) {
    const std::int64_t row_start = a.row_base + r * pitch;
    const std::int64_t last = byte + step * (count - 1);
    const std::int64_t lo = std::min(byte, last), hi = std::max(byte, last) + size;
    if (bounded && (lo < row_start || hi > row_start + a.extent)) {
      fail_out_of_bounds(ref, lo - row_start, hi - row_start, a.extent);
    }
    touch(ref, region, how, {byte, count, step, row_start, r});
    fn(Run{region.data() + byte, count, step});
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
      if (skipped_[row]) {
        skip_row();
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
      byte += advance(shape.outer, at, size);
    }
  }
}

EvalContext::InPlace EvalContext::in_place(const TensorRef& ref, bool write) {
  if (!ref.on_chip() || ref.dynamic != nullptr || !ref.pattern->contiguous) return {};
  const Placement place = memory_.place(ref);
  const std::int64_t row_base = place.start - ref.offset, count = ref.columns();
  for (std::int64_t r = 0; r < ref.rows(); ++r) {
    touch(ref, *place.region, write ? Touch::kWrite : Touch::kRead,
          {place.start + r * place.pitch, count, size_bytes(ref.dtype), row_base + r * place.pitch,
           r});
  }
  return {place.region->data() + place.start, place.pitch};
}

std::int64_t EvalContext::find_foreign(const TensorRef& ref) {
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

void EvalContext::for_each_run(const TensorRef& ref, bool write,
                               const std::function<void(const Run&)>& fn) {
  walk(ref, write ? Touch::kWrite : Touch::kRead, fn);
}

Tile<std::byte> EvalContext::load_raw(const TensorRef& ref) {
  const std::int64_t size = size_bytes(ref.dtype);
  Tile<std::byte> tile = make<std::byte>(ref.rows(), ref.columns() * size);
  std::byte* out = tile.data;
  walk(ref, Touch::kRead, [&](const Run& run) {
    const std::int64_t bytes = run.count * size;
    if (run.data == nullptr) {
      std::memset(out, 0, static_cast<std::size_t>(bytes));
    } else {
      copy_elements(size, out, size, run.data, run.step_bytes, run.count);
    }
    out += bytes;
  });
  return tile;
}

void EvalContext::store_raw(const TensorRef& ref, const Tile<std::byte>& values) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::byte* in = values.data;
  walk(ref, Touch::kWrite, [&](const Run& run) {
    const std::int64_t bytes = run.count * size;
    if (run.data != nullptr) copy_elements(size, run.data, run.step_bytes, in, size, run.count);
    in += bytes;
  });
}

void EvalContext::store_raw_where(const TensorRef& ref, const Tile<std::byte>& values,
                                  const Tile<std::uint8_t>& mask) {
  const std::int64_t size = size_bytes(ref.dtype);
  Region& region = *memory_.place(ref).region;
  const std::byte* in = values.data;
  const std::uint8_t* selected = mask.data;
  walk(ref, Touch::kSome, [&](const Run& run) {
    if (run.data != nullptr) {
      const std::int64_t at = run.data - region.data();
      const bool marked = run.step_bytes == size && !tracks_origin(ref.space) &&
                          region.find_unwritten(at, run.count * size) < 0;
      if (marked && size == 4) {
        blend<std::uint32_t>(run.data, in, selected, run.count);
      } else if (marked && size == 2) {
        blend<std::uint16_t>(run.data, in, selected, run.count);
      } else {
        for (std::int64_t i = 0; i < run.count; ++i) {
          if (selected[i] == 0) continue;
          std::memcpy(run.data + i * run.step_bytes, in + i * size, static_cast<std::size_t>(size));
          mark_written(region, ref.space, at + i * run.step_bytes, size);
        }
      }
    }
    in += run.count * size;
    selected += run.count;
  });
}

Tile<float> EvalContext::load(const TensorRef& ref) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::int64_t width = is_packed(ref.dtype) ? 4 : 1;
  Tile<float> tile = make<float>(ref.rows(), ref.columns() * width);
  float* out = tile.data;
  std::vector<std::byte> gather;
  walk(ref, Touch::kRead, [&](const Run& run) {
    const auto n = static_cast<std::size_t>(run.count);
    if (run.data == nullptr) {
      std::fill_n(out, run.count * width, 0.0F);
    } else if (run.step_bytes == size || run.count == 1) {
      decode(ref.dtype, run.data, n, out);
    } else if (run.step_bytes == 0) {
      decode(ref.dtype, run.data, 1, out);
      for (std::int64_t i = width; i < run.count * width; ++i) out[i] = out[i - width];
    } else {
      gather.resize(n * static_cast<std::size_t>(size));
      copy_elements(size, gather.data(), size, run.data, run.step_bytes, run.count);
      decode(ref.dtype, gather.data(), n, out);
    }
    out += run.count * width;
  });
  return tile;
}

void EvalContext::store(const TensorRef& ref, const Tile<float>& values) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::int64_t width = is_packed(ref.dtype) ? 4 : 1;
  const float* in = rounds(ref) ? rounded(ref, values).data : values.data;
  std::vector<std::byte> scatter;
  walk(ref, Touch::kWrite, [&](const Run& run) {
    const auto n = static_cast<std::size_t>(run.count);
    if (run.data == nullptr) {
    } else if (run.step_bytes == size || run.count == 1) {
      encode(ref.dtype, in, n, run.data);
    } else {
      scatter.resize(n * static_cast<std::size_t>(size));
      encode(ref.dtype, in, n, scatter.data());
      copy_elements(size, run.data, run.step_bytes, scatter.data(), size, run.count);
    }
    in += run.count * width;
  });
}

}  // namespace nkisim::isa
