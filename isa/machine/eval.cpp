// Computes the values of one instruction, and loads and stores its operands as dense tiles.

#include "isa/machine/eval.hpp"

#include <algorithm>
#include <cstring>

#include "isa/machine/eval_walk.hpp"
#include "isa/machine/rounding.hpp"
#include "isa/program/bounds.hpp"
#include "isa/program/check.hpp"

namespace nkisim::isa {

namespace {

template <typename T>
void copy_strided(std::byte* out, std::int64_t out_step, const std::byte* in, std::int64_t in_step,
                  std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * out_step, in + i * in_step, sizeof(T));
  }
}

// Copies `count` elements of `size` bytes between two evenly spaced places. A fixed size lets the
// compiler make each copy a load and a store.
void copy_elements(std::int64_t size, std::byte* out, std::int64_t out_step, const std::byte* in,
                   std::int64_t in_step, std::int64_t count) {
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

EvalContext::EvalContext(const Program& program, Memory& memory, CoreState& state,
                         Unwritten unwritten)
    : program_(program), memory_(memory), state_(state), unwritten_(unwritten) {}
EvalContext::~EvalContext() = default;

void EvalContext::begin(const Conditions& conditions, int core) {
  print = conditions.print;
  rules_ = conditions.rules;
  warn_ = conditions.warn;
  state_.checks_registers = unwritten_ == Unwritten::kError;
  const auto is_on = [this](Rule rule) {
    const Level level = rules_.of(rule);
    return level == Level::kError || (level == Level::kWarning && warn_);
  };
  watches_ = is_on(Rule::cast_overflow) || is_on(Rule::integer_rounded);  // one watch finds both
  if (conditions.stochastic_rounding) seed_rounding(state_, *conditions.stochastic_rounding, core);
}

void EvalContext::run(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.eval == nullptr) return;
  locating(inst, [&] {
    evaluate(inst);
    if (!overflow_.empty()) say_overflow();
  });
  if (!repeated_.empty()) mark_repeated();
  memory_.done(inst);
}

// An eval that reads an undefined byte has changed nothing yet and is done anew, with care.
void EvalContext::evaluate(const Inst& inst) {
  const bool sent = received_ != nullptr && !received_->undefined.empty();
  if (!sent && !state_undefined(inst)) {
    try {
      spec(inst).eval(inst, *this);
      return;
    } catch (const FoundUndefined&) {
      if (wrote_) throw Error(Rule::internal_error, "internal error: reads after it has written");
    }
  }
  evaluate_undefined(inst);
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

Parcel EvalContext::take(const Inst& inst, const TensorRef& ref) {
  Parcel parcel;
  locating(inst, [&] { parcel = pack(ref); });
  parcel.program = &program_;
  if (parcel.origin != 0) parcel.root = memory_.origins().root_of(parcel.origin);
  return parcel;
}

void EvalContext::give(const Inst& inst, const TensorRef& ref, const Parcel& parcel,
                       std::int64_t first) {
  const std::int64_t size = size_bytes(ref.dtype), count = parcel.elements();
  if (first < 0 || first + count > ref.elements()) {
    throw Error(Rule::internal_error, "internal error: a collective gives too much");
  }
  if (!receiving_) return;
  locating(inst, [&] {
    const Placement place = memory_.place(ref);
    std::int64_t element = -first;
    walk(ref, Touch::kSome, [&](const Run& run) {
      const std::int64_t from = std::max<std::int64_t>(0, -element);
      const std::int64_t to = std::min(run.count, count - element);
      if (from < to) {
        std::byte* at = run.data + from * run.step_bytes;
        copy_elements(size, at, run.step_bytes, parcel.bytes.data() + (element + from) * size, size,
                      to - from);
        touch(ref, place, Touch::kWrite,
              {at - place.region->data(), to - from, run.step_bytes, 0, run.row});
      }
      element += run.count;
    });
    if (!parcel.undefined.empty() && unwritten_ != Unwritten::kAllow) {
      undefine(ref, parcel, first);
    }
    if (parcel.lost >= 0 && watches_) {
      const auto lost = static_cast<std::size_t>(first + parcel.lost);
      overflow_.push_back({&ref, lost, parcel.lost_value, false});
      say_overflow();
    }
  });
}

// Marks the elements that were undefined where they come from. The way there is another rank's: it
// is described from its beginning, if that rank runs the same program.
void EvalContext::undefine(const TensorRef& ref, const Parcel& parcel, std::int64_t first) {
  Origin root{.kind = Origin::Kind::kNeverWritten, .tensor = ref.tensor};
  if (parcel.program == &program_) root = parcel.root;
  const std::uint32_t origin = memory_.origins().computed(*inst_, memory_.origins().root(root));
  const Placement place = memory_.place(ref);
  const std::int64_t size = size_bytes(ref.dtype);
  std::int64_t element = -first;
  walk(ref, Touch::kSome, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i, ++element) {
      const bool given =
          element >= 0 && element < static_cast<std::int64_t>(parcel.undefined.size());
      if (!given || parcel.undefined[static_cast<std::size_t>(element)] == 0) continue;
      const std::int64_t byte = run.data + i * run.step_bytes - place.region->data();
      memory_.undefine(ref.tensor, place.bit(byte, run.row), size, origin);
    }
  });
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
    if (size > kBlock) memory_.require_memory(static_cast<std::int64_t>(size), "an operand");
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

void EvalContext::say_cut_off(const TensorRef& ref, std::int64_t row, std::int64_t index) {
  if (!warn_ || inst_ == nullptr) return;
  report(rules_.of_warning(Rule::row_cut_off), Rule::row_cut_off,
         "skips row " + std::to_string(row) + " of " + program_.tensor(ref).name +
             ": it begins within the tensor and ends behind it, though its index is " +
             std::to_string(index) + "; a row that fits is required");
}

void EvalContext::report(Level level, Rule rule, const std::string& message) {
  if (level == Level::kError) fail(rule, message);
  if (level == Level::kOff || !warn_ || inst_ == nullptr) return;
  const std::pair<const Inst*, Rule> now(inst_, rule);
  if (std::find(warned_.begin(), warned_.end(), now) != warned_.end()) return;
  warned_.push_back(now);
  Error warning(rule, message);
  warning.at(spec(*inst_).name, inst_->loc);
  program_.locate(warning);
  warn_(warning);
}

bool EvalContext::tracks_origin(Space space) const {
  return space == Space::kPsum && machine().generation < Generation::kV4;
}

void EvalContext::touch(const TensorRef& ref, const Placement& place, Touch how,
                        const RunPlace& run) {
  const bool check = how == Touch::kRead && unwritten_ == Unwritten::kError && replay_ == nullptr;
  if (!check && how != Touch::kWrite) return;
  const std::int64_t size = size_bytes(ref.dtype);
  const bool dense = run.step == size || run.count == 1;
  if (how == Touch::kWrite) {
    wrote_ = true;
    if (dense) return mark_written(ref, place, run.row, run.byte, run.count * size);
  }
  // A spread-out run inside a span that is all defined needs no look at each element.
  const std::int64_t last = run.byte + run.step * (run.count - 1);
  const std::int64_t lo = std::min(run.byte, last), hi = std::max(run.byte, last) + size;
  const bool fresh = place.bits->find_undefined(place.bit(lo, run.row), hi - lo) >= 0;
  if (how == Touch::kWrite) {
    if (!fresh && !tracks_origin(ref.space) && replay_ == nullptr && !memory_.any_sharing()) return;
    for (std::int64_t i = 0; i < run.count; ++i) {
      mark_written(ref, place, run.row, run.byte + i * run.step, size);
    }
    return;
  }
  if (fresh && dense) throw FoundUndefined{};
  for (std::int64_t i = 0; i < run.count && fresh; ++i) {
    const std::int64_t at = place.bit(run.byte + i * run.step, run.row);
    if (place.bits->find_undefined(at, size) >= 0) throw FoundUndefined{};
  }
}

EvalContext::InPlace EvalContext::in_place(const TensorRef& ref, bool write) {
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

void EvalContext::for_each_run(const TensorRef& ref, const std::function<void(const Run&)>& fn) {
  walk(ref, Touch::kSome, fn);
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
  const Placement place = memory_.place(ref);
  const std::byte* in = values.data;
  const std::uint8_t* selected = mask.data;
  walk(ref, Touch::kSome, [&](const Run& run) {
    wrote_ = true;
    if (run.data != nullptr) {
      const std::int64_t at = run.data - place.region->data();
      const bool marked = run.step_bytes == size && !tracks_origin(ref.space) &&
                          replay_ == nullptr && !memory_.any_sharing() &&
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
      copy_elements(size, run.data, run.step_bytes, scatter.data(), size, run.count);
    }
    in += run.count * width;
  });
}

}  // namespace nkisim::isa
