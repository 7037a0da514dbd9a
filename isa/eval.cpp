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

void EvalContext::run(const Inst& inst) {
  const OpSpec& op = spec(inst);
  block_ = used_ = 0;
  skipped_.clear();
  skip_out_of_bounds_ = false;
  if (op.eval == nullptr) return;
  try {
    op.eval(inst, *this);
  } catch (Error& e) {
    e.at(op.name, inst.loc);
    program_.locate(e);
    throw;
  }
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

EvalContext::Access EvalContext::access(const TensorRef& ref, bool write) {
  Access a{.place = memory_.place(ref)};
  const Tensor& tensor = program_.tensor(ref);
  a.extent = tensor.extent_bytes();
  a.row_base = a.place.start - ref.offset;
  const std::int64_t size = size_bytes(ref.dtype);
  for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
    using Kind = DynamicOffset::Kind;
    if (d->kind == Kind::kRegister || d->kind == Kind::kScalar) {
      const std::int64_t v = d->kind == Kind::kRegister
                                 ? state_.reg(d->reg)
                                 : static_cast<std::int32_t>(load_bits(*d->index).data[0]);
      if (d->limit > 0 && (v < 0 || v >= d->limit)) {
        if (skip_out_of_bounds_) {
          a.row_index.assign(static_cast<std::size_t>(ref.rows()), -1);
          continue;
        }
        fail("dynamic offset of tensor " + tensor.name, std::to_string(v),
             "an index in 0.." + std::to_string(d->limit - 1));
      }
      a.place.start += v * d->stride * size;
      continue;
    }
    const Tile<std::uint32_t> index = load_bits(*d->index);
    auto& out = d->kind == Kind::kVector ? a.row_index : a.column_index;
    (d->kind == Kind::kVector ? a.row_stride : a.column_stride) = d->stride * size;
    const std::int64_t count = d->kind == Kind::kVector ? ref.rows() : ref.columns();
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at =
          d->kind == Kind::kVector ? i : (i % d->group) * index.columns + i / d->group;
      if (at >= index.size())
        fail("index tensor", "of " + std::to_string(index.size()) + " indices",
             std::to_string(count) + " indices");
      std::int64_t v = static_cast<std::int32_t>(index.data[at]);
      if (d->limit > 0 && (v < 0 || v >= d->limit)) {
        if (!skip_out_of_bounds_) {
          fail("index " + std::to_string(i) + " of tensor " + tensor.name, std::to_string(v),
               "an index in 0.." + std::to_string(d->limit - 1));
        }
        v = -1;
      }
      out.push_back(v);
    }
  }
  (void)write;
  return a;
}

// Calls fn(Run) for every maximal run of equally spaced elements, in element order, row by row.
template <typename Fn>
void EvalContext::walk(const TensorRef& ref, bool write, Fn&& fn) {
  const Access a = access(ref, write);
  const std::int64_t size = size_bytes(ref.dtype);
  std::vector<Dim> dims = ref.pattern->dims;
  std::int64_t rows = ref.rows(), row_step = a.place.pitch;
  if (!ref.on_chip() && dims.size() >= 2) {
    row_step = dims.front().step * size;
    dims.erase(dims.begin());
  }
  // Merge inner dimensions that continue each other, so that a row-major tile is one run.
  Dim inner{1, 1};
  while (!dims.empty()) {
    const Dim d = dims.back();
    if (inner.num == 1)
      inner = d;
    else if (d.step == inner.step * inner.num)
      inner.num *= d.num;
    else if (d.num != 1)
      break;
    dims.pop_back();
  }
  std::int64_t outer = 1;
  for (const Dim& d : dims) outer *= d.num;
  const bool checked = unwritten_ == Unwritten::kError && !write;
  const bool bounded = ref.dynamic != nullptr;
  if (!a.row_index.empty()) skipped_.assign(static_cast<std::size_t>(rows), false);

  auto emit = [&](std::int64_t byte, std::int64_t count, std::int64_t step,
                  std::int64_t row_start) {
    const std::int64_t last = byte + step * (count - 1);
    const std::int64_t lo = std::min(byte, last), hi = std::max(byte, last) + size;
    if (bounded && (lo < row_start || hi > row_start + a.extent)) {
      fail("access to tensor " + program_.tensor(ref).name,
           "at bytes " + std::to_string(lo - row_start) + ".." + std::to_string(hi - row_start),
           "an address within its " + std::to_string(a.extent) + " bytes" +
               (ref.on_chip() ? " per partition" : ""));
    }
    Region& region = *a.place.region;
    const bool dense = step == size || count == 1;
    if (write) {
      if (dense)
        region.mark_written(byte, count * size);
      else
        for (std::int64_t i = 0; i < count; ++i) region.mark_written(byte + i * step, size);
    } else if (checked) {
      std::int64_t hole = -1;
      if (dense)
        hole = region.find_unwritten(byte, count * size);
      else
        for (std::int64_t i = 0; i < count && hole < 0; ++i)
          hole = region.find_unwritten(byte + i * step, size);
      if (hole >= 0) {
        const Tensor& t = program_.tensor(ref);
        std::string where = "byte " + std::to_string(hole - row_start) + " of tensor " + t.name;
        if (ref.on_chip() && a.place.pitch > 0) {
          where += " on partition " +
                   std::to_string(ref.partition + (hole - a.place.start) / a.place.pitch);
        }
        if (t.line != 0 && t.file > 0 && t.file <= program_.files().size()) {
          where +=
              " (allocated at " + program_.files()[t.file - 1] + ":" + std::to_string(t.line) + ")";
        }
        fail("read of " + where +
             ", which was never written; write it first, or allow unwritten reads");
      }
    }
    fn(Run{region.data() + byte, count, step});
  };

  std::vector<std::int64_t> at(dims.size(), 0);
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t row_start = a.row_base + (ref.on_chip() ? r * a.place.pitch : 0);
    std::int64_t base = a.place.start + r * row_step;
    if (!a.row_index.empty()) {
      const std::int64_t index = a.row_index[static_cast<std::size_t>(r)];
      if (index < 0) {
        skipped_[static_cast<std::size_t>(r)] = true;
        for (std::int64_t o = 0; o < outer; ++o) fn(Run{nullptr, inner.num, size});
        continue;
      }
      base = a.place.start + index * a.row_stride;
    }
    if (!a.column_index.empty()) {
      for (std::int64_t index : a.column_index)
        emit(base + index * a.column_stride, 1, size, row_start);
      continue;
    }
    std::fill(at.begin(), at.end(), 0);
    std::int64_t byte = base;
    for (std::int64_t o = 0; o < outer; ++o) {
      emit(byte, inner.num, inner.step * size, row_start);
      for (std::size_t d = dims.size(); d-- > 0;) {  // odometer over the outer dimensions
        byte += dims[d].step * size;
        if (++at[d] < dims[d].num) break;
        byte -= dims[d].step * dims[d].num * size;
        at[d] = 0;
      }
    }
  }
}

void EvalContext::for_each_run(const TensorRef& ref, bool write,
                               const std::function<void(const Run&)>& fn) {
  walk(ref, write, fn);
}

Tile<std::byte> EvalContext::load_raw(const TensorRef& ref) {
  const std::int64_t size = size_bytes(ref.dtype);
  Tile<std::byte> tile = make<std::byte>(ref.rows(), ref.columns() * size);
  std::byte* out = tile.data;
  walk(ref, false, [&](const Run& run) {
    const std::int64_t bytes = run.count * size;
    if (run.data == nullptr) {
      std::memset(out, 0, static_cast<std::size_t>(bytes));
    } else if (run.step_bytes == size) {
      std::memcpy(out, run.data, static_cast<std::size_t>(bytes));
    } else {
      for (std::int64_t i = 0; i < run.count; ++i) {
        std::memcpy(out + i * size, run.data + i * run.step_bytes, static_cast<std::size_t>(size));
      }
    }
    out += bytes;
  });
  return tile;
}

void EvalContext::store_raw(const TensorRef& ref, const Tile<std::byte>& values) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::byte* in = values.data;
  walk(ref, true, [&](const Run& run) {
    const std::int64_t bytes = run.count * size;
    if (run.data == nullptr) {
    } else if (run.step_bytes == size) {
      std::memcpy(run.data, in, static_cast<std::size_t>(bytes));
    } else {
      for (std::int64_t i = 0; i < run.count; ++i) {
        std::memcpy(run.data + i * run.step_bytes, in + i * size, static_cast<std::size_t>(size));
      }
    }
    in += bytes;
  });
}

Tile<float> EvalContext::load(const TensorRef& ref) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::int64_t width = is_packed(ref.dtype) ? 4 : 1;
  Tile<float> tile = make<float>(ref.rows(), ref.columns() * width);
  float* out = tile.data;
  std::vector<std::byte> gather;
  walk(ref, false, [&](const Run& run) {
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
      for (std::int64_t i = 0; i < run.count; ++i) {
        std::memcpy(gather.data() + i * size, run.data + i * run.step_bytes,
                    static_cast<std::size_t>(size));
      }
      decode(ref.dtype, gather.data(), n, out);
    }
    out += run.count * width;
  });
  return tile;
}

void EvalContext::store(const TensorRef& ref, const Tile<float>& values) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::int64_t width = is_packed(ref.dtype) ? 4 : 1;
  const float* in = values.data;
  std::vector<std::byte> scatter;
  walk(ref, true, [&](const Run& run) {
    const auto n = static_cast<std::size_t>(run.count);
    if (run.data == nullptr) {
    } else if (run.step_bytes == size || run.count == 1) {
      encode(ref.dtype, in, n, run.data);
    } else {
      scatter.resize(n * static_cast<std::size_t>(size));
      encode(ref.dtype, in, n, scatter.data());
      for (std::int64_t i = 0; i < run.count; ++i) {
        std::memcpy(run.data + i * run.step_bytes, scatter.data() + i * size,
                    static_cast<std::size_t>(size));
      }
    }
    in += run.count * width;
  });
}

Tile<std::uint32_t> EvalContext::load_bits(const TensorRef& ref) {
  const Tile<std::byte> raw = load_raw(ref);
  Tile<std::uint32_t> tile = make<std::uint32_t>(ref.rows(), ref.columns());
  decode_bits(ref.dtype, raw.data, static_cast<std::size_t>(tile.size()), tile.data);
  return tile;
}

void EvalContext::store_bits(const TensorRef& ref, const Tile<std::uint32_t>& values) {
  const std::int64_t size = size_bytes(ref.dtype);
  Tile<std::byte> raw = make<std::byte>(values.rows, values.columns * size);
  encode_bits(ref.dtype, values.data, static_cast<std::size_t>(values.size()), raw.data);
  store_raw(ref, raw);
}

Tile<float> EvalContext::column(const Arg& arg, std::int64_t rows, float absent) {
  if (arg.kind == Arg::Kind::kTensor) return load(*arg.tensor);
  Tile<float> tile = make<float>(rows, 1);
  float v = absent;
  if (arg.kind == Arg::Kind::kReal)
    v = static_cast<float>(arg.real);
  else if (arg.present())
    v = static_cast<float>(arg.integer);
  std::fill_n(tile.data, rows, v);
  return tile;
}

Tile<std::uint32_t> EvalContext::column_bits(const Arg& arg, std::int64_t rows) {
  if (arg.kind == Arg::Kind::kTensor) return load_bits(*arg.tensor);
  Tile<std::uint32_t> tile = make<std::uint32_t>(rows, 1);
  const std::int64_t v =
      arg.kind == Arg::Kind::kReal ? static_cast<std::int64_t>(arg.real) : arg.integer;
  std::fill_n(tile.data, rows, arg.present() ? static_cast<std::uint32_t>(v) : 0U);
  return tile;
}

std::int64_t EvalContext::value(const Arg& arg) const {
  return arg.kind == Arg::Kind::kRegister ? state_.reg(arg.integer) : arg.integer;
}

}  // namespace nkisim::isa
