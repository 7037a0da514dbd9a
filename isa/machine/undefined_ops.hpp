// What an instruction does with undefined values, told from its operands and operators.
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

// How far an undefined element spreads even where the results agree.
inline OpSpec::Undefined spread_of(const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.undefined != OpSpec::Undefined::kIfComparing) return op.undefined;
  const bool along_the_row =
      op.state != OpSpec::State::kNone || inst.op == Op::k_tensor_tensor_scan;
  for (std::size_t i = 0; i < inst.args.size(); ++i) {
    const Arg& arg = inst.args[i];
    if (op.params[i].kind == ParamKind::kAlu && arg.present() &&
        compares(static_cast<AluOp>(arg.integer), along_the_row)) {
      return along_the_row ? OpSpec::Undefined::kRows : OpSpec::Undefined::kElements;
    }
  }
  return OpSpec::Undefined::kNone;
}

// Whether the op only moves elements: another value in every bit tells all there is.
inline bool only_moves(const Inst& inst) {
  switch (inst.op) {
    case Op::k_dma_copy:
    case Op::k_dma_transpose:
    case Op::k_nc_stream_shuffle:
    case Op::k_nc_transpose:
    case Op::k_sendrecv:
    case Op::k_tensor_copy:
      break;
    default:
      return false;
  }
  const int adds = param_index(spec(inst), "dst_rmw_op");
  if (adds >= 0 && inst.args[static_cast<std::size_t>(adds)].present()) return false;
  std::optional<Dtype> dtype;
  for (const Arg& arg : inst.args) {
    if (arg.kind != Arg::Kind::kTensor) continue;
    if (dtype.value_or(arg.tensor->dtype) != arg.tensor->dtype) return false;
    dtype = arg.tensor->dtype;
  }
  return true;
}

// A predicate or a bound: what it decides is undefined where it is.
inline bool selects(const Param& param) {
  return param.name == "predicate" || param.name == "bound0" || param.name == "bound1";
}

// Whether the op reads row `row` of an operand: of MX scales kScaleRows per quadrant of the data.
inline bool reads_row(const Inst& inst, const Param& param, std::int64_t row) {
  if (!param.mx_scale || is_written(param.kind)) return true;
  const std::int64_t rows = inst.tensor(param_index(spec(inst), "stationary")).rows();
  return row % kQuadrant < kScaleRows && row < rows;
}

// MX products have whole quadrants of partitions, so that kernels multiply padding that nobody
// wrote by zeros: what only NaN or infinity there would change is not undefined.
inline bool pads_with_zeros(const Inst& inst) { return inst.op == Op::k_nc_matmul_mx; }

// On which elements of its operands one of the result can depend: those at its place (of operands
// of another width: in its row), those in its row, any. kAll is always right; the others save
// evaluations.
enum class Depends : std::uint8_t { kAll, kRow, kElement };

inline Depends depends_of(Op op) {
  switch (op) {
    case Op::k_activate2:
    case Op::k_activation:
    case Op::k_activation_reduce:
    case Op::k_affine_select:
    case Op::k_reciprocal:
    case Op::k_scalar_tensor_tensor:
    case Op::k_tensor_copy:
    case Op::k_tensor_copy_predicated:
    case Op::k_tensor_scalar:
    case Op::k_tensor_tensor:
      return Depends::kElement;
    case Op::k_bn_aggr:
    case Op::k_bn_stats:
    case Op::k_exponential:
    case Op::k_max8:
    case Op::k_nc_find_index8:
    case Op::k_nc_match_replace8:
    case Op::k_range_select:
    case Op::k_select_reduce:
    case Op::k_sequence_bounds:
    case Op::k_tensor_reduce:
    case Op::k_tensor_scalar_reduce:
    case Op::k_tensor_tensor_scan:
      return Depends::kRow;
    default:
      return Depends::kAll;
  }
}

// Rows are those of the operands if all have as many.
inline Depends depends_of(const Inst& inst) {
  std::optional<std::int64_t> rows;
  for (const Arg& arg : inst.args) {
    if (arg.kind == Arg::Kind::kTensors) return Depends::kAll;
    if (arg.kind != Arg::Kind::kTensor) continue;
    if (rows.value_or(arg.tensor->rows()) != arg.tensor->rows()) return Depends::kAll;
    rows = arg.tensor->rows();
  }
  return depends_of(inst.op);
}

}  // namespace nkisim::isa
