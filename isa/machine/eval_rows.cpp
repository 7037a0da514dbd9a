// Computes instruction values row by row where each row of an operand is contiguous, and reads
// scalar operands.
#include <algorithm>
#include <cstring>
#include <utility>

#include "isa/machine/eval_walk.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

EvalContext::DenseRows EvalContext::dense_rows(const TensorRef& ref) {
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
bool EvalContext::may_stream(const DenseRows& dst, const DenseRows& src) {
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

void EvalContext::check_defined(const DenseRows& dense) const {
  if (unwritten_ == Unwritten::kAllow || replay_ != nullptr) return;
  const Placement& place = dense.place;
  for (std::int64_t r = 0; r < dense.rows; ++r) {
    const std::int64_t at = place.bit(place.start + r * place.pitch, r);
    if (place.bits->find_undefined(at, dense.row_bytes) >= 0) throw FoundUndefined{};
  }
}

void EvalContext::copy_raw(const TensorRef& dst, const TensorRef& src) {
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

void EvalContext::map_rows(std::initializer_list<const TensorRef*> inputs, const TensorRef& dst,
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

EvalContext::Moved EvalContext::count_moved(const TensorRef& ref) {
  Moved moved{.rows = ref.rows(), .all = ref.rows(), .span = ref.rows()};
  walk(ref, Touch::kSome, [](const Run&) {});
  if (skipped_.empty()) return moved;
  const auto first = std::find(skipped_.begin(), skipped_.end(), false);
  const auto last = std::find(skipped_.rbegin(), skipped_.rend(), false);
  moved.rows = std::count(skipped_.begin(), skipped_.end(), false);
  moved.span = moved.rows == 0 ? 0 : last.base() - first;
  return moved;
}

EvalContext::Moved EvalContext::moved_rows(const Inst& inst) {
  const int oob = param_index(spec(inst), "oob_mode");
  Moved least;
  if (oob < 0 || inst.integer(oob) != 1) return least;
  // A look says nothing: the run of the instruction warns of what it skips, or fails.
  WarningSink silenced = std::exchange(warn_, nullptr);
  const auto speak = [&] { warn_ = std::move(silenced); };
  try {
    locating(inst, [&] {
      set_skip_out_of_bounds(true);
      for (const Arg& arg : inst.args) {
        if (arg.kind != Arg::Kind::kTensor || arg.tensor->dynamic == nullptr) continue;
        const Moved moved = count_moved(*arg.tensor);
        if (least.all == 0 || moved.rows * least.all < least.rows * moved.all) least = moved;
      }
    });
  } catch (const FoundUndefined&) {
    least = {};
  } catch (const Error&) {
    least = {};
  }
  speak();
  return least;
}

}  // namespace nkisim::isa
