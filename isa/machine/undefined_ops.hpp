// Decides which elements of an instruction's result depend on undefined (never-written) inputs.
#pragma once

#include <optional>

#include "isa/base/alu.hpp"
#include "isa/machine/eval.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

inline bool compares(AluOp op, bool along_the_row) {
  using enum AluOp;
  const bool logical =
      op == kLogicalAnd || op == kLogicalOr || op == kLogicalXor || op == kLogicalNot;
  return (along_the_row && logical) || op == kEqual || op == kNotEqual || op == kGreaterEqual ||
         op == kGreater || op == kLessEqual || op == kLess;
}

// The spread of an undefined element where the results agree.
inline OpSpec::Undefined spread_of(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.undefined != OpSpec::Undefined::kIfComparing) return op.undefined;
  const bool along_the_row =
      op.state != OpSpec::State::kNone || op.depends == OpSpec::Depends::kRow;
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    const Arg& arg = inst.args[i];
    if (op.params[i].kind == ParamKind::kAlu && arg.present() &&
        compares(static_cast<AluOp>(arg.integer), along_the_row)) {
      return along_the_row ? OpSpec::Undefined::kRows : OpSpec::Undefined::kElements;
    }
  }
  return OpSpec::Undefined::kNone;
}

// True if the op only moves elements: one evaluation with every bit inverted then shows everything.
inline bool only_moves(const Inst& inst) {
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
inline bool reads_row(const Inst& inst, const Param& param, std::int64_t row) {
  if (!param.mx_scale || is_written(param.kind)) return true;
  const std::int64_t rows = inst.tensor(param_index(spec(inst), "stationary")).rows();
  return row % kQuadrant < kScaleRows && row < rows;
}

// Rows are those of the operands if all have as many.
inline OpSpec::Depends depends_of(const Inst& inst) {
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

}  // namespace nkisim::isa
