// Loads and stores operands as FP32 values, row by row where each row is contiguous. It also marks
// elements that one DMA writes twice, or reads and writes, and packs operands for another core.
#include "isa/machine/op_context.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "isa/machine/operand_walk.hpp"
#include "isa/machine/undefined.hpp"

namespace nkisim::isa {

Tile<float> OpContext::load(const TensorRef& ref) {
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
      walking::copy_elements(size, gather.data(), size, run.data, run.step_bytes, run.count);
      decode(ref.dtype, gather.data(), n, out);
    }
    out += run.count * width;
  });
  return tile;
}

void OpContext::store(const TensorRef& ref, const Tile<float>& values) {
  const std::int64_t size = size_bytes(ref.dtype);
  const std::int64_t width = is_packed(ref.dtype) ? 4 : 1;
  const float* in = rounds(ref) ? rounded(ref, values).data : values.data;
  watch(ref, in, static_cast<std::size_t>(values.size()));
  std::vector<std::byte> scatter;
  walk(ref, Touch::kWrite, [&](const Run& run) {
    const auto n = static_cast<std::size_t>(run.count);
    if (run.data == nullptr) {
    } else if (run.step_bytes == size || run.count == 1) {
      encode(ref.dtype, in, n, run.data);
    } else {
      scatter.resize(n * static_cast<std::size_t>(size));
      encode(ref.dtype, in, n, scatter.data());
      walking::copy_elements(size, run.data, run.step_bytes, scatter.data(), size, run.count);
    }
    in += run.count * width;
  });
}

void OpContext::map_rows(std::initializer_list<const TensorRef*> inputs, const TensorRef& dst,
                         const RowFn& fn) {
  struct Input {
    const TensorRef* ref;
    DenseRows dense;
    Tile<float> tile{};  // values of the operand, or space for one row of them
  };
  const DenseRows to = dense_rows(dst);
  const auto columns = dst.columns();
  std::vector<Input> in;
  bool stream = to.place.region != nullptr && !is_packed(dst.dtype) && !rounds(dst);
  for (const TensorRef* ref : inputs) {
    in.push_back({ref, dense_rows(*ref)});
    stream &= in.back().dense.place.region != nullptr && !is_packed(ref->dtype) &&
              may_stream(to, in.back().dense);
  }
  const auto in_place = [&](const TensorRef& ref) {
    return stream && ref.dtype == Dtype::kFloat32;
  };
  for (Input& i : in) {
    if (!stream) i.tile = load(*i.ref);
    if (stream) check_defined(i.dense);
    if (stream && !in_place(*i.ref)) i.tile = make<float>(1, columns);
  }
  std::vector<const float*> rows(in.size());
  const Tile<float> out = make<float>(stream ? 1 : dst.rows(), columns);
  const auto n = static_cast<std::size_t>(columns);
  wrote_ |= stream;
  for (std::int64_t r = 0; r < dst.rows(); ++r) {
    for (std::size_t k = 0; k < in.size(); ++k) {
      if (in_place(*in[k].ref)) {
        rows[k] = reinterpret_cast<const float*>(in[k].dense.row(r));
      } else {
        rows[k] = in[k].tile.row(stream ? 0 : r);
        if (stream) decode(in[k].ref->dtype, in[k].dense.row(r), n, in[k].tile.data);
      }
    }
    if (!stream) {
      fn(r, rows.data(), out.row(r), n);
      continue;
    }
    const bool direct = in_place(dst);
    fn(r, rows.data(), direct ? reinterpret_cast<float*>(to.row(r)) : out.data, n);
    if (!direct) {
      watch(dst, out.data, n, static_cast<std::size_t>(r) * n);
      encode(dst.dtype, out.data, n, to.row(r));
    }
    mark_written(dst, to.place, r, to.place.start + r * to.place.pitch, to.row_bytes);
  }
  if (!stream) store(dst, out);
}

Tile<float> OpContext::column(const Arg& arg, std::int64_t rows, float absent) {
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

Tile<std::uint32_t> OpContext::column_bits(const Arg& arg, std::int64_t rows) {
  if (arg.kind == Arg::Kind::kTensor) return load_bits(*arg.tensor);
  Tile<std::uint32_t> tile = make<std::uint32_t>(rows, 1);
  const std::int64_t v =
      arg.kind == Arg::Kind::kReal ? static_cast<std::int64_t>(arg.real) : arg.integer;
  std::fill_n(tile.data, rows, arg.present() ? static_cast<std::uint32_t>(v) : 0U);
  return tile;
}

std::int64_t OpContext::value(const Arg& arg) const {
  return arg.kind == Arg::Kind::kRegister ? state_.reg(arg.integer) : arg.integer;
}

// Rows with equal or near indices, or a pattern that comes to an element more than once.
void OpContext::undefine_repeated(const TensorRef& ref, const Tile<std::byte>& values) {
  if (unwritten_ == Unwritten::kAllow) return;
  if (!may_repeat(ref)) return;
  const auto size = static_cast<std::size_t>(size_bytes(ref.dtype));
  const std::vector<std::byte*> places = element_places(ref);
  const Placement place = memory_.place(ref);
  const std::int64_t columns = ref.columns();
  std::unordered_map<const std::byte*, std::size_t> first;  // place -> element
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] == nullptr) continue;
    const auto [at, fresh] = first.emplace(places[i], i);
    if (fresh || std::memcmp(values.data + i * size, values.data + at->second * size, size) == 0) {
      continue;
    }
    const std::int64_t byte = places[i] - place.region->data();
    repeated_.push_back({place.bit(byte, static_cast<std::int64_t>(i) / columns),
                         static_cast<std::int64_t>(size),
                         {.kind = Origin::Kind::kWrittenTwice,
                          .tensor = ref.tensor,
                          .inst = inst_,
                          .byte = byte - place.start + ref.offset}});
  }
}

namespace {

// True if two operands of one tensor certainly share no byte.
bool apart(const TensorRef& a, const TensorRef& b) {
  if (a.dynamic != nullptr || b.dynamic != nullptr) return false;
  const auto begin = [](const TensorRef& r) {
    return r.offset + r.pattern->first * size_bytes(r.dtype);
  };
  const auto end = [](const TensorRef& r) {
    return r.offset + (r.pattern->last + 1) * size_bytes(r.dtype);
  };
  if (begin(a) >= end(b) || begin(b) >= end(a)) return true;
  return a.on_chip() &&
         (a.partition >= b.partition + b.partitions || b.partition >= a.partition + a.partitions);
}

bool same_place(const TensorRef& a, const TensorRef& b) {
  return a.dynamic == nullptr && b.dynamic == nullptr && a.offset == b.offset &&
         a.partition == b.partition && a.pattern == b.pattern && a.dtype == b.dtype;
}

}  // namespace

void OpContext::undefine_overlap(const TensorRef& dst, const TensorRef& src,
                                 const Tile<std::byte>& values,
                                 const std::vector<std::int64_t>& becomes) {
  if (dst.tensor != src.tensor || unwritten_ == Unwritten::kAllow || apart(dst, src)) return;
  if (becomes.empty() && same_place(dst, src)) return;
  const auto size = static_cast<std::size_t>(size_bytes(dst.dtype));
  const std::int64_t read = size_bytes(src.dtype), written = size_bytes(dst.dtype);
  const std::vector<std::byte*> to = element_places(dst), from = element_places(src);
  std::unordered_map<const std::byte*, std::size_t> source;  // place -> element
  for (std::size_t j = 0; j < from.size(); ++j) {
    if (from[j] != nullptr) source.emplace(from[j], j);
  }
  const Placement place = memory_.place(dst);
  const std::int64_t columns = dst.columns();
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] == nullptr || std::memcmp(values.data + i * size, to[i], size) == 0) continue;
    for (std::int64_t shift = 1 - read; shift < written; ++shift) {
      const auto hit = source.find(to[i] + shift);
      if (hit == source.end()) continue;
      const std::size_t j =
          becomes.empty() ? hit->second : static_cast<std::size_t>(becomes[hit->second]);
      if (j == i || to[j] == nullptr) continue;
      const std::int64_t byte = to[j] - place.region->data();
      repeated_.push_back({place.bit(byte, static_cast<std::int64_t>(j) / columns),
                           written,
                           {.kind = Origin::Kind::kReadAndWritten,
                            .tensor = dst.tensor,
                            .inst = inst_,
                            .byte = byte - place.start}});
    }
  }
}

// Undefined bytes go along; unwritten ones leave as their sentinel.
Parcel OpContext::pack(const TensorRef& ref) {
  Parcel parcel{.bytes = {}, .rows = ref.rows(), .dtype = ref.dtype};
  const std::int64_t size = size_bytes(ref.dtype);
  parcel.row_bytes = ref.columns() * size;
  parcel.bytes.resize(static_cast<std::size_t>(parcel.rows * parcel.row_bytes));
  try {
    std::byte* out = parcel.bytes.data();
    walk(ref, Touch::kRead, [&](const Run& run) {
      const std::int64_t dense = run.step_bytes == size ? run.count : 1;
      for (std::int64_t i = 0; i < run.count; i += dense, out += dense * size) {
        std::memcpy(out, run.data + i * run.step_bytes, static_cast<std::size_t>(dense * size));
      }
    });
    return parcel;
  } catch (const FoundUndefined&) {  // some of it: element by element
  }
  const Placement place = memory_.place(ref);
  std::size_t element = 0;
  walk(ref, Touch::kSome, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i, ++element) {
      std::byte* to = &parcel.bytes[element * static_cast<std::size_t>(size)];
      const std::byte* from = run.data + i * run.step_bytes;
      std::memcpy(to, from, static_cast<std::size_t>(size));
      if (unwritten_ == Unwritten::kAllow) continue;
      const std::int64_t byte = from - place.region->data();
      const std::int64_t bit = place.bit(byte, run.row);
      const std::int64_t hole = place.bits->find_undefined(bit, size);
      if (hole < 0) continue;
      parcel.undefined.resize(static_cast<std::size_t>(ref.elements()));
      parcel.undefined[element] = 1;
      if (memory_.origins().last(place.bits->origin(hole)) == nullptr) fill_sentinel(ref.dtype, to);
      if (parcel.origin != 0) continue;
      parcel.origin =
          memory_.origins().computed(*inst_, origin_of(ref, place, byte + hole - bit, run.row));
    }
  });
  return parcel;
}

}  // namespace nkisim::isa
