// Evaluation of an instruction that reads undefined bytes.
//
// What is undefined in its result is found by evaluating it several times, each time with other
// values in place of the undefined ones: elements that come out the same depend on none of them,
// all others are undefined. So every op carries undefinedness along by element and needs no code
// for it, and what a select, a mask or a bitwise operation shuts out is not undefined. Two kinds
// of results can agree by chance and are taken to be undefined wherever an undefined value goes in:
// comparisons (no few values meet the one that makes a difference) and searches for equal values
// (OpSpec::undefined). What stays in memory is the first evaluation's, in which bytes that nobody
// wrote read as AWS's simulator fills them: NaN, or 4 in integers (nki_simulator.rst).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "isa/eval_walk.hpp"
#include "isa/undefined.hpp"
#include "isa/undefined_ops.hpp"

namespace nkisim::isa {
namespace {

constexpr int kUniform = 6;  // evaluations with the same kind of value everywhere
constexpr int kFills = 12;   // and with a mixture of them, drawn for each element
constexpr std::int64_t kSentinelInteger = 4;

std::uint32_t mix(std::uint64_t x) {
  x *= 0x9e3779b97f4a7c15U;
  x ^= x >> 29U;
  x *= 0xbf58476d1ce4e5b9U;
  return static_cast<std::uint32_t>(x >> 32U);
}

float float_fill(int fill, std::uint32_t h) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  switch (fill) {
    case 0:
      return std::numeric_limits<float>::quiet_NaN();
    case 1:
      return 0.0F;
    case 2:
      return 0.5F + static_cast<float>(h % 1024U) / 256.0F;
    case 3:
      return -0.75F - static_cast<float>((h >> 10U) % 1024U) / 256.0F;
    case 4:
      return kInfinity;
    case 5:
      return -kInfinity;
    case 6:
      return 1.0F;
    case 7:
      return 1e30F * static_cast<float>(1U + h % 64U);
    default:
      return -1e4F * static_cast<float>(1U + h % 64U);
  }
}

// Fills 2 and 3 differ in every bit, 4 and 5 are the largest and the smallest number. Beyond those:
// 1, and two random ones.
std::uint32_t bits_fill(int fill, std::uint32_t h, std::int64_t size) {
  const std::uint32_t top = 1U << static_cast<unsigned>(8 * size - 1);
  switch (fill) {
    case 0:
      return kSentinelInteger;
    case 1:
      return 0;
    case 2:
      return h;
    case 3:
      return ~h;
    case 4:
      return top - 1U;
    case 5:
      return top;
    case 6:
      return 1;
    case 7:
      return h % 128U;
    default:
      return mix(h);
  }
}

// The kind of value of evaluation `fill` for one of the undefined elements.
int kind_of(int fill, std::uint32_t h) {
  constexpr std::uint32_t kKinds = 9;
  return fill < kUniform ? fill : static_cast<int>(mix(h + static_cast<unsigned>(fill)) % kKinds);
}

// A value for an undefined element; `place` makes it differ from that of the next element.
void fill_element(Dtype dtype, int fill, std::uint64_t place, std::byte* out) {
  const std::uint32_t h = mix(place);
  fill = kind_of(fill, h);
  const bool plain_float = kFloats.contains(dtype);
  if (plain_float) return encode_one(dtype, float_fill(fill, h), out);
  std::uint32_t bits = bits_fill(fill, h, size_bytes(dtype));
  if (!is_integer(dtype) && fill == 0)
    bits = ~0U;  // packed and scale types: NaN where there is one
  std::memcpy(out, &bits, static_cast<std::size_t>(size_bytes(dtype)));
}

}  // namespace

void fill_sentinel(Dtype dtype, std::byte* element) { fill_element(dtype, 0, 0, element); }

struct EvalContext::Replay {
  struct Hole {  // an undefined element of an operand
    std::byte* at;
    Dtype dtype;
    std::uint64_t place;  // where it is on the device, whatever the host's addresses
    bool stored;          // an instruction computed its value
  };
  struct Reach {  // rows and elements of the operands of equal width that are undefined
    std::vector<bool> rows, elements;
  };
  struct Piece {  // evenly spaced elements that may be written
    const TensorRef* ref;
    std::byte* data;
    Placement place;
    std::int64_t count, step, size, row, column;
    std::size_t saved;  // where their bytes are in a copy
  };
  struct Write {
    const std::byte *first, *last;
  };
  std::vector<Hole> holes;
  std::vector<std::byte> hole_bytes;  // four per hole, as they were
  std::vector<Piece> pieces;
  std::size_t piece_bytes = 0;
  std::vector<Write> writes;  // of any evaluation
  std::vector<std::byte> before, actual;
  std::vector<std::uint8_t> differs;  // per byte of `actual`
  CoreState state, state_actual;
  std::bitset<kPartitions> vector_differs, scalar_differs;
  Parcel parcel;
  const Parcel* received = nullptr;
  std::uint32_t origin = 0;
  bool unsure = false;  // an evaluation failed: everything it writes is undefined
  OpSpec::Undefined spread = OpSpec::Undefined::kNone;
  std::map<std::int64_t, Reach> reach;  // by columns of the operand, where something spreads

  [[nodiscard]] std::vector<std::byte> copy() const;
  void restore(const std::vector<std::byte>& bytes) const;
  void compare(const std::vector<std::byte>& now);
  [[nodiscard]] bool written(const std::byte* at) const;
  [[nodiscard]] bool reached(std::int64_t row, std::int64_t column, std::int64_t columns) const;
};

std::vector<std::byte> EvalContext::Replay::copy() const {
  std::vector<std::byte> bytes(piece_bytes);
  for (const Piece& p : pieces) {
    std::byte* to = bytes.data() + p.saved;
    for (std::int64_t i = 0; i < p.count; ++i, to += p.size) {
      std::memcpy(to, p.data + i * p.step, static_cast<std::size_t>(p.size));
    }
  }
  return bytes;
}

void EvalContext::Replay::restore(const std::vector<std::byte>& bytes) const {
  for (const Piece& p : pieces) {
    const std::byte* from = bytes.data() + p.saved;
    for (std::int64_t i = 0; i < p.count; ++i, from += p.size) {
      std::memcpy(p.data + i * p.step, from, static_cast<std::size_t>(p.size));
    }
  }
}

void EvalContext::Replay::compare(const std::vector<std::byte>& now) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    differs[i] |= static_cast<std::uint8_t>(now[i] != actual[i] ? 1 : 0);
  }
}

bool EvalContext::Replay::written(const std::byte* at) const {
  const auto next =
      std::upper_bound(writes.begin(), writes.end(), at,
                       [](const std::byte* b, const Write& w) { return b < w.first; });
  return next != writes.begin() && at < std::prev(next)->last;
}

bool EvalContext::Replay::reached(std::int64_t row, std::int64_t column,
                                  std::int64_t columns) const {
  if (spread == OpSpec::Undefined::kNone) return false;
  const auto at = [](const std::vector<bool>& bits, std::int64_t i) {
    return i < static_cast<std::int64_t>(bits.size()) && bits[static_cast<std::size_t>(i)];
  };
  return std::any_of(reach.begin(), reach.end(), [&](const auto& entry) {
    const auto& [width, from] = entry;
    if (spread == OpSpec::Undefined::kRows || width != columns) return at(from.rows, row);
    return at(from.elements, row * columns + column);
  });
}

// The elements of one operand: undefined ones are holes, those that may be written are kept.
void EvalContext::collect(const TensorRef& ref, bool written, Replay& replay) {
  const std::int64_t size = size_bytes(ref.dtype), columns = ref.columns();
  const Placement place = memory_.place(ref);
  std::int64_t row = -1, column = 0;
  walk(ref, Touch::kSome, [&](const Run& run) {
    if (run.row != row) column = 0;
    row = run.row;
    if (run.data == nullptr) return;
    if (written) {
      replay.pieces.push_back({&ref, run.data, place, run.count, run.step_bytes, size, row, column,
                               replay.piece_bytes});
      replay.piece_bytes += static_cast<std::size_t>(run.count * size);
    }
    for (std::int64_t i = 0; i < run.count; ++i) {
      std::byte* at = run.data + i * run.step_bytes;
      const std::int64_t byte = at - place.region->data();
      const std::int64_t bit = place.bit(byte, row);
      const std::int64_t hole = place.bits->find_undefined(bit, size);
      if (hole < 0) continue;
      std::uint32_t origin = place.bits->origin(hole);
      const std::uint64_t where =
          (static_cast<std::uint64_t>(ref.space) << 48U) + static_cast<std::uint64_t>(byte);
      replay.holes.push_back({at, ref.dtype, where, memory_.origins().last(origin) != nullptr});
      if (!written && replay.spread != OpSpec::Undefined::kNone) {
        Replay::Reach& reach = replay.reach[columns];
        const auto element = static_cast<std::size_t>(row * columns + column + i);
        reach.rows.resize(std::max(reach.rows.size(), static_cast<std::size_t>(row) + 1));
        reach.elements.resize(std::max(reach.elements.size(), element + 1));
        reach.rows[static_cast<std::size_t>(row)] = reach.elements[element] = true;
      }
      if (replay.origin == 0) replay.origin = origin_of(ref, place, byte + hole - bit, row);
    }
    column += run.count;
  });
}

namespace {

template <typename Fn>
void for_each_operand(const Inst& inst, Fn&& fn) {
  const auto params = spec(inst).params;
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    const Arg& arg = inst.args[i];
    if (arg.kind == Arg::Kind::kTensor) fn(*arg.tensor, params[i]);
    if (arg.kind != Arg::Kind::kTensors) continue;
    for (const TensorRef* ref : *arg.tensors) fn(*ref, params[i]);
  }
}

}  // namespace

// Undefined bytes may not decide where something goes or whether it does.
void EvalContext::check_steering(const Inst& inst) {
  const auto require_defined = [&](const TensorRef& ref, const std::string& what) {
    Replay found;
    collect(ref, false, found);
    if (found.holes.empty()) return;
    fail(what + " is undefined: " + memory_.origins().describe(found.origin, program_));
  };
  for_each_operand(inst, [&](const TensorRef& ref, const Param& param) {
    for (const DynamicOffset* d = ref.dynamic; d != nullptr; d = d->next) {
      if (d->index == nullptr) continue;
      require_defined(*d->index, "index " + program_.tensor(*d->index).name + " of tensor " +
                                     program_.tensor(ref).name);
    }
    if (param.steers) {
      require_defined(ref, std::string(param.name) + " " + program_.tensor(ref).name);
    }
  });
}

// Operands that are read come first: where they are undefined is what an origin is about.
void EvalContext::collect(const Inst& inst, Replay& replay) {
  const int oob = param_index(spec(inst), "oob_mode");
  set_skip_out_of_bounds(oob >= 0 && inst.integer(oob) == 1);
  for (const bool written : {false, true}) {
    for_each_operand(inst, [&](const TensorRef& ref, const Param& param) {
      if (is_written(param.kind) == written) collect(ref, written, replay);
    });
  }
  replay.hole_bytes.resize(4 * replay.holes.size());
  for (std::size_t i = 0; i < replay.holes.size(); ++i) {
    const Replay::Hole& hole = replay.holes[i];
    std::memcpy(&replay.hole_bytes[4 * i], hole.at,
                static_cast<std::size_t>(size_bytes(hole.dtype)));
  }
  replay.before = replay.copy();
  replay.state = state_;
  replay.received = received_;
  if (received_ == nullptr) return;
  replay.parcel = *received_;
  if (replay.origin == 0) replay.origin = received_->origin;
}

// Evaluates with one set of values in the holes, and leaves memory and state as the op does.
void EvalContext::replay_once(const Inst& inst, Replay& replay, int fill) {
  for (const Replay::Hole& hole : replay.holes) {
    if (fill == 0 && hole.stored) continue;
    fill_element(hole.dtype, fill, hole.place, hole.at);
  }
  if (received_ != nullptr && !replay.parcel.undefined.empty() && fill != 0) {
    const std::int64_t size = size_bytes(replay.parcel.dtype);
    for (std::size_t i = 0; i < replay.parcel.undefined.size(); ++i) {
      if (replay.parcel.undefined[i] == 0) continue;
      const std::size_t at = i * static_cast<std::size_t>(size);
      fill_element(replay.parcel.dtype, fill, i, &replay.parcel.bytes[at]);
    }
    received_ = &replay.parcel;
  }
  for (std::size_t lane = 0; lane < kPartitions && fill != 0; ++lane) {
    const float value = float_fill(kind_of(fill, mix(lane)), mix(lane));
    if (replay.state.vector_undefined[lane]) state_.vector_accumulator[lane] = value;
    if (replay.state.scalar_undefined[lane]) state_.scalar_accumulator[lane] = value;
  }
  block_ = used_ = 0;
  skip_out_of_bounds_ = false;
  replay_ = &replay;
  PrintSink silent;
  if (fill != 0) std::swap(print, silent);
  const auto leave = [&] {
    replay_ = nullptr;
    received_ = replay.received;
    if (fill != 0) std::swap(print, silent);
  };
  try {
    spec(inst).eval(inst, *this);
  } catch (...) {
    leave();
    throw;
  }
  leave();
}

void EvalContext::evaluate_undefined(const Inst& inst) {
  Replay replay;
  check_steering(inst);
  replay.spread = spread_of(inst);
  collect(inst, replay);
  if (replay.origin == 0 && state_undefined(inst)) replay.origin = state_.undefined_origin;
  if (replay.origin == 0) throw Error(ErrorCode::kInternal, "internal error: nothing is undefined");
  const auto put_back = [&] {
    for (std::size_t i = replay.holes.size(); i-- > 0;) {
      const Replay::Hole& hole = replay.holes[i];
      std::memcpy(hole.at, &replay.hole_bytes[4 * i],
                  static_cast<std::size_t>(size_bytes(hole.dtype)));
    }
    replay.restore(replay.before);
  };
  const bool moves = only_moves(inst);
  for (int fill = 0; fill < kFills && !replay.unsure; ++fill) {
    if (!tells(moves, fill)) continue;
    try {
      replay_once(inst, replay, fill);
    } catch (const Error& e) {
      put_back();
      state_ = replay.state;
      if (fill == 0) {
        fail(e.message() +
             "; an operand is undefined: " + memory_.origins().describe(replay.origin, program_));
      }
      replay.unsure = true;
      break;
    }
    const std::vector<std::byte> now = replay.copy();
    if (fill == 0) {
      replay.actual = now;
      replay.differs.assign(now.size(), 0);
      replay.state_actual = state_;
    } else {
      replay.compare(now);
      compare_state(replay);
    }
    put_back();
    state_ = replay.state;
  }
  conclude(inst, replay);
}

void EvalContext::compare_state(Replay& replay) const {
  const CoreState& actual = replay.state_actual;
  const auto same = [](float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; };
  for (std::size_t lane = 0; lane < kPartitions; ++lane) {
    replay.vector_differs[lane] =
        replay.vector_differs[lane] ||
        !same(state_.vector_accumulator[lane], actual.vector_accumulator[lane]);
    replay.scalar_differs[lane] =
        replay.scalar_differs[lane] ||
        !same(state_.scalar_accumulator[lane], actual.scalar_accumulator[lane]);
  }
}

// The first evaluation's values stay, and each element written is marked as what it is.
void EvalContext::conclude(const Inst& inst, Replay& replay) {
  replay.restore(replay.actual);
  state_ = replay.state_actual;
  const std::uint32_t origin = memory_.origins().computed(inst, replay.origin);
  state_.vector_undefined = replay.vector_differs;
  state_.scalar_undefined = replay.scalar_differs;
  if (replay.unsure && spec(inst).state != OpSpec::State::kNone) {
    state_.vector_undefined.set();
    state_.scalar_undefined.set();
  }
  if (state_.vector_undefined.any() || state_.scalar_undefined.any()) {
    state_.undefined_origin = origin;
  }
  auto& writes = replay.writes;
  std::sort(writes.begin(), writes.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t kept = 0;
  for (const Replay::Write& w : writes) {
    if (kept > 0 && w.first <= writes[kept - 1].last) {
      writes[kept - 1].last = std::max(writes[kept - 1].last, w.last);
    } else {
      writes[kept++] = w;
    }
  }
  writes.resize(kept);
  for (const Replay::Piece& p : replay.pieces) {
    const std::int64_t columns = p.ref->columns();
    for (std::int64_t i = 0; i < p.count; ++i) {
      const std::byte* at = p.data + i * p.step;
      if (!replay.written(at)) continue;
      const auto from = replay.differs.begin() + static_cast<std::ptrdiff_t>(p.saved) + i * p.size;
      const bool differs = std::find(from, from + p.size, 1) != from + p.size;
      const std::int64_t byte = at - p.place.region->data();
      mark_written(*p.ref, p.place, p.row, byte, p.size);
      if (differs || replay.unsure || replay.reached(p.row, p.column + i, columns)) {
        p.place.bits->undefine(p.place.bit(byte, p.row), p.size, origin);
      }
    }
  }
}

bool EvalContext::state_undefined(const Inst& inst) const {
  if (state_.vector_undefined.none() && state_.scalar_undefined.none()) return false;
  if (unwritten_ == Unwritten::kAllow || spec(inst).state == OpSpec::State::kNone) return false;
  bool found = false;
  for_each_operand(inst, [&](const TensorRef& ref, const Param&) {
    for (int p = ref.partition; p < ref.partition + ref.partitions && !found; ++p) {
      const auto lane = static_cast<std::size_t>(p);
      found = state_.vector_undefined[lane] || state_.scalar_undefined[lane];
    }
  });
  return found;
}

void EvalContext::mark_written(const TensorRef& ref, const Placement& place, std::int64_t row,
                               std::int64_t first, std::int64_t count) {
  if (replay_ != nullptr) {
    const std::byte* at = place.region->data() + first;
    replay_->writes.push_back({at, at + count});
    return;
  }
  const std::int64_t bit = place.bit(first, row);
  place.bits->define(bit, count);
  if (tracks_origin(ref.space)) {
    place.region->mark_foreign(first, count, engine_ != Engine::kTensor);
  }
  if (!memory_.any_sharing() || !ref.on_chip() || unwritten_ == Unwritten::kAllow) return;
  const std::int64_t extent = program_.tensor(ref).extent_bytes();
  memory_.overwrite_sharing(ref.tensor, ref.partition + static_cast<int>(row), bit % extent, count,
                            *inst_);
}

}  // namespace nkisim::isa
