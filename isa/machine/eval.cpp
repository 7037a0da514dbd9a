// Runs instructions for their values, and collectives' operands.
#include "isa/machine/eval.hpp"

#include <algorithm>

#include "isa/machine/operand_walk.hpp"
#include "isa/machine/rounding.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

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

template <typename Fn>
void EvalContext::locating(const Inst& inst, Fn&& fn) {
  free_tiles();
  skipped_.clear();
  skip_out_of_bounds_ = false;
  engine_ = inst.engine;
  inst_ = &inst;
  wrote_ = false;
  log_ = nullptr;
  repeated_.clear();
  overflow_.clear();
  try {
    fn();
  } catch (Error& e) {
    e.at(spec(inst).name, inst.loc);
    program_.locate(e);
    if (program_.ranks() > 1) e.of_rank(state_.rank);
    throw;
  }
}

void EvalContext::run(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.eval == nullptr) return;
  locating(inst, [&] {
    evaluate(inst);
    if (!overflow_.empty()) say_overflow();
  });
  for (const Repeated& r : repeated_) {
    memory_.undefine(r.origin.tensor, r.bit, r.size, memory_.origins().root(r.origin));
  }
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
        walking::copy_elements(size, at, run.step_bytes,
                               parcel.bytes.data() + (element + from) * size, size, to - from);
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
