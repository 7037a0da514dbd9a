// Computes an instruction that reads never-written (undefined) bytes, and finds which bytes of its
// result are undefined.
//
// What is undefined in its result is found by evaluating it several times, each time with other
// values in place of the undefined ones: elements that come out the same depend on none of them,
// all others are undefined. So every op carries undefinedness along by element and needs no code
// for it, and what a select, a mask or a bitwise operation shuts out is not undefined. Two kinds
// of results can agree by chance and are taken to be undefined wherever an undefined value goes in:
// comparisons (no few values meet the one that makes a difference) and searches for equal values
// (OpSpec::undefined). MX products are evaluated with finite values, so that padding that meets
// zeros does no harm; those that it would harm are noted. What stays in memory is the first
// evaluation's, in which unwritten bytes read as AWS's simulator fills them: NaN, or 4 in
// integers (nki_simulator.rst).
#include <algorithm>
#include <bit>
#include <optional>

#include "isa/base/alu.hpp"
#include "isa/machine/operand_walk.hpp"
#include "isa/machine/replay.hpp"
#include "isa/machine/undefined.hpp"
#include "isa/program/engine_state.hpp"

namespace nkisim::isa {

namespace {

bool is_comparison(AluOp op, bool along_the_row) {
  using enum AluOp;
  const bool logical =
      op == kLogicalAnd || op == kLogicalOr || op == kLogicalXor || op == kLogicalNot;
  return (along_the_row && logical) || op == kEqual || op == kNotEqual || op == kGreaterEqual ||
         op == kGreater || op == kLessEqual || op == kLess;
}

// The spread of an undefined element where the results agree.
OpSpec::Undefined spread_of(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.undefined != OpSpec::Undefined::kIfComparing) return op.undefined;
  const bool along_the_row =
      op.state != OpSpec::State::kNone || op.depends == OpSpec::Depends::kRow;
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    const Arg& arg = inst.args[i];
    if (op.params[i].kind == ParamKind::kAlu && arg.present() &&
        is_comparison(static_cast<AluOp>(arg.integer), along_the_row)) {
      return along_the_row ? OpSpec::Undefined::kRows : OpSpec::Undefined::kElements;
    }
  }
  return OpSpec::Undefined::kNone;
}

// True if the op only moves elements: one evaluation with every bit inverted then shows everything.
bool only_moves(const Inst& inst) {
  const OpSpec::Moves moves = spec(inst).moves;
  if (moves != OpSpec::Moves::kCopies && moves != OpSpec::Moves::kRearranges) return false;
  std::optional<Dtype> dtype;
  for (const Arg& arg : inst.args) {
    if (arg.kind != Arg::Kind::kTensor) continue;
    if (dtype.value_or(arg.tensor->dtype) != arg.tensor->dtype) return false;
    dtype = arg.tensor->dtype;
  }
  return true;
}

// True if the op reads row `row` of an operand. MX scales have kScaleRows per quadrant of the data.
bool reads_row(const Inst& inst, const Param& param, std::int64_t row) {
  if (!param.mx_scale || is_written(param.kind)) return true;
  const std::int64_t rows = inst.tensor(param_index(spec(inst), "stationary")).rows();
  return row % kQuadrant < kScaleRows && row < rows;
}

// Rows are those of the operands if all have as many.
OpSpec::Depends depends_of(const Inst& inst) {
  using enum OpSpec::Depends;
  std::optional<std::int64_t> rows;
  for (const Arg& arg : inst.args) {
    if (arg.kind == Arg::Kind::kTensors) return kAll;
    if (arg.kind != Arg::Kind::kTensor) continue;
    if (rows.value_or(arg.tensor->rows()) != arg.tensor->rows()) return kAll;
    rows = arg.tensor->rows();
  }
  return spec(inst).depends;
}

// Calls fn(first, count) for each stretch of elements that have an undefined byte, of `count` that
// lie `step` bytes apart from bit `bit` on.
template <typename Fn>
void for_each_undefined(const Definedness& bits, std::int64_t bit, std::int64_t count,
                        std::int64_t step, std::int64_t size, Fn&& fn) {
  const auto undefined = [&](std::int64_t i) {
    return bits.find_undefined(bit + i * step, size) >= 0;
  };
  for (std::int64_t i = 0; i < count;) {
    if (step == size) {  // all that is defined at once
      const std::int64_t found = bits.find_undefined(bit + i * size, (count - i) * size);
      if (found < 0) return;
      i = (found - bit) / size;
    } else if (!undefined(i)) {
      ++i;
      continue;
    }
    std::int64_t end = i + 1;
    while (end < count && undefined(end)) ++end;
    fn(i, end - i);
    i = end;
  }
}

}  // namespace

void EvalContext::Replay::collect_holes(EvalContext& context, const TensorRef& ref,
                                        const Placement& place, const Run& run, std::int64_t first,
                                        std::int64_t count) {
  const std::int64_t size = size_bytes(ref.dtype);
  const bool scales = param != nullptr && param->mx_scale;
  const std::uint64_t space = static_cast<std::uint64_t>(ref.space) << 48U;
  const std::size_t begin = holes.size();
  std::uint32_t last = 0;
  bool stored = false;
  for (std::int64_t i = first; i < first + count; ++i) {
    std::byte* at = run.data + i * run.step_bytes;
    const std::int64_t byte = at - place.region->data();
    const std::int64_t bit = place.bit(byte, run.row);
    const std::int64_t hole = place.bits->find_undefined(bit, size);
    const std::uint32_t from = place.bits->origin(hole);
    const auto here = [&] { return context.origin_of(ref, place, byte + hole - bit, run.row); };
    if (origin == 0) origin = here();
    if (finite && !is_written(param->kind)) last_origin = here();
    if (i == first || from != last) {
      stored = context.memory_.origins().last(from) != nullptr;
    }
    last = from;
    if (holes.size() > begin && holes.back().stored == stored) {
      ++holes.back().count;
    } else {
      holes.push_back({at, 1, run.step_bytes, scales ? Dtype::kFloat8E8m0fnu : ref.dtype, stored,
                       space + static_cast<std::uint64_t>(byte), hole_bytes.size()});
    }
    hole_bytes.insert(hole_bytes.end(), at, at + size);
  }
}

// The elements of one operand: undefined ones are holes, those that may be written are kept.
void EvalContext::collect(const TensorRef& ref, bool written, Replay& replay) {
  const std::int64_t size = size_bytes(ref.dtype), columns = ref.columns();
  const Placement place = memory_.place(ref);
  const bool notes = !written && (replay.spread != OpSpec::Undefined::kNone ||
                                  replay.depends != OpSpec::Depends::kAll);
  std::int64_t row = -1, column = 0;
  walk(ref, Touch::kSome, [&](const Run& run) {
    if (run.row != row) column = 0;
    row = run.row;
    if (run.data == nullptr) return;
    if (written) {
      replay.pieces.push_back({&ref, run.data, place, run.count, run.step_bytes, size, row, column,
                               columns, replay.piece_bytes});
      replay.piece_bytes += static_cast<std::size_t>(run.count * size);
    }
    if (replay.param != nullptr && !reads_row(*replay.running, *replay.param, row)) return;
    const std::int64_t bit = place.bit(run.data - place.region->data(), row);
    const bool once = run.step_bytes == 0;  // one element, read over and over
    for_each_undefined(*place.bits, bit, once ? 1 : run.count, run.step_bytes, size,
                       [&](std::int64_t first, std::int64_t count) {
                         replay.collect_holes(*this, ref, place, run, first, count);
                         const std::int64_t width = once ? run.count : count;
                         if (notes) {
                           replay.reach.note(ref.rows(), columns, row, column + first, width);
                         }
                         if (replay.param != nullptr && replay.param->selects) {
                           replay.selects.note(ref.rows(), columns, row, column + first, width);
                         }
                       });
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
    fail(Rule::undefined_value,
         what + " is undefined: " + memory_.origins().describe(found.origin, program_));
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
      replay.param = &param;
      if (is_written(param.kind) == written) collect(ref, written, replay);
    });
  }
  replay.copy_to(replay.before);
  replay.state = state_;
  replay.received = received_;
  if (received_ == nullptr) return;
  replay.parcel = *received_;
  if (replay.origin == 0) replay.origin = received_->origin;
}

// Evaluates with one set of values in the holes, and leaves memory and state as the op does.
void EvalContext::replay_once(const Inst& inst, Replay& replay, int fill) {
  replay.fill_holes(fill);
  if (received_ != nullptr && !replay.parcel.undefined.empty() && fill != 0) {
    replay.fill_parcel(fill);
    received_ = &replay.parcel;
  }
  for (std::size_t lane = 0; lane < kPartitions && fill != 0; ++lane) {
    const float value = undefined_lane(fill, lane);
    if (replay.state.vector_undefined[lane]) state_.vector_accumulator[lane] = value;
    if (replay.state.scalar_undefined[lane]) state_.scalar_accumulator[lane] = value;
  }
  free_tiles();
  skip_out_of_bounds_ = false;
  log_ = &replay.writes;
  PrintSink silent;
  if (fill != 0) std::swap(print, silent);
  const auto leave = [&] {
    log_ = nullptr;
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

bool EvalContext::Replay::evaluate(EvalContext& context, const Inst& inst, int fill) {
  try {
    context.replay_once(inst, *this, fill);
    return true;
  } catch (const Error& e) {
    put_back();
    context.state_ = state;
    if (fill != 0) return false;
    fail(Rule::undefined_value, e.message() + "; an operand is undefined: " +
                                    context.memory_.origins().describe(origin, context.program_));
  }
}

void EvalContext::evaluate_undefined(const Inst& inst) {
  Replay replay;
  check_steering(inst);
  replay.running = &inst;
  replay.finite = spec(inst).pads_with_zeros;
  replay.spread = spread_of(inst);
  replay.depends = depends_of(inst);
  collect(inst, replay);
  if (replay.origin == 0 && state_undefined(inst)) replay.origin = state_.undefined_origin;
  if (replay.origin == 0) throw Error(Rule::internal_error, "internal error: nothing is undefined");
  const bool moves = only_moves(inst), stateful = uses_state(inst);
  const int fills = moves ? 2 : replay.finite ? Replay::kFinite : Replay::kFills;
  for (int fill = 0; fill < fills; ++fill) {
    if (!replay.evaluate(*this, inst, moves && fill > 0 ? Replay::kInverse : fill)) {
      replay.unsure = true;
      break;
    }
    replay.writes.end_evaluation();
    if (fill == 0) {
      replay.copy_to(replay.actual);
      replay.differs.resize(replay.actual.size());
      replay.state_actual = state_;
    } else if (fill == 1 && replay.finite) {
      replay.copy_to(replay.zeros);
    } else {
      replay.copy_to(replay.now);
      replay.compare();
      compare_state(replay);
    }
    replay.put_back();
    state_ = replay.state;
    if (!stateful && replay.settled()) break;
  }
  if (replay.finite && !replay.unsure && replay.keep_finite()) {
    memory_.origins().times_zero(inst, replay.last_origin);
  }
  conclude(inst, replay);
}

void EvalContext::compare_state(Replay& replay) const {
  const CoreState& actual = replay.state_actual;
  const auto same = [](float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  for (std::size_t lane = 0; lane < kPartitions; ++lane) {
    replay.vector_differs[lane] =
        replay.vector_differs[lane] ||
        !same(state_.vector_accumulator[lane], actual.vector_accumulator[lane]);
    replay.scalar_differs[lane] =
        replay.scalar_differs[lane] ||
        !same(state_.scalar_accumulator[lane], actual.scalar_accumulator[lane]);
  }
}

namespace {
enum class Kept : std::uint8_t { kUntouched, kDefined, kUndefined };
}

// The first evaluation's values stay, and each element written is marked as what it is.
void EvalContext::conclude(const Inst& inst, Replay& replay) {
  replay.restore(replay.actual);
  state_ = replay.state_actual;
  const std::uint32_t origin = memory_.origins().computed(inst, replay.origin);
  state_.vector_undefined = replay.vector_differs;
  state_.scalar_undefined = replay.scalar_differs;
  // A selected value is also summed up, so its lane is undefined. A lane is a row of some operand.
  for (const Replay::Piece& p : replay.pieces) {
    if (!uses_state(inst) || replay.spread_over(p).none() || replay.selects.empty()) continue;
    for_each_operand(inst, [&](const TensorRef& ref, const Param&) {
      state_.vector_undefined.set(static_cast<std::size_t>(ref.partition + p.row));
    });
  }
  if (replay.unsure && spec(inst).state != OpSpec::State::kNone) {
    state_.vector_undefined.set();
    state_.scalar_undefined.set();
  }
  if (state_.vector_undefined.any() || state_.scalar_undefined.any()) {
    state_.undefined_origin = origin;
  }
  replay.mark(*this, origin);
}

void EvalContext::Replay::mark(EvalContext& context, std::uint32_t cause) {
  writes.merge();
  for (const Piece& p : pieces) {
    const Reaches::Hit hit = spread_over(p);
    const std::byte* bits = differs.data() + p.saved;
    const auto status = [&](std::int64_t i) {
      const bool selected = !selects.empty() && hit.at(i);  // then it may be written
      if (!selected && !writes.written(p.data + i * p.step)) return Kept::kUntouched;
      const bool undefined = unsure || hit.at(i) || any_bit(bits + i * p.size, p.size);
      return undefined ? Kept::kUndefined : Kept::kDefined;
    };
    for (std::int64_t i = 0; i < p.count;) {
      const Kept kept = status(i);
      std::int64_t end = i + 1;
      while (p.step == p.size && end < p.count && status(end) == kept) ++end;
      const std::int64_t byte = p.data + i * p.step - p.place.region->data();
      const std::int64_t bytes = (end - i) * p.size;
      if (kept != Kept::kUntouched) context.mark_written(*p.ref, p.place, p.row, byte, bytes);
      if (kept == Kept::kUndefined) {
        context.memory_.undefine(p.ref->tensor, p.place.bit(byte, p.row), bytes, cause);
      }
      i = end;
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

}  // namespace nkisim::isa
