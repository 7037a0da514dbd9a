// What an instruction does with undefined values, told from its operands and operators.
#pragma once

#include <optional>

#include "isa/alu.hpp"
#include "isa/eval.hpp"
#include "isa/op_spec.hpp"

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

// Whether the op only moves elements: two values that differ in every bit tell all there is.
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

// Whether evaluation `fill` can tell something: of what is only moved, those whose values differ in
// every bit.
inline bool tells(bool moves, int fill) { return !moves || fill == 0 || fill == 2 || fill == 3; }

}  // namespace nkisim::isa
