// tensor_scalar_reduce: a scalar operation and the reduction of its result along the free
// dimensions.
#include "isa/ops/shared/accumulate.hpp"

namespace nkisim::isa::ops::tensor_scalar_reduce {
namespace {

enum {
  kDst,
  kData,
  kOp0,
  kOperand0,
  kReduceOp,
  kReduceRes,
  kReverse0,
  kReduceCmd,
  kReduceInit,
  kNegate
};

constexpr std::array<Param, 10> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .indirect = true, .free_dims = 3},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip, .indirect = true, .free_dims = 3},
    {.name = "op0", .kind = ParamKind::kAlu},
    {.name = "operand0",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "constant or [P,1] float32; none or 0 for a unary op0"},
    {.name = "reduce_op", .kind = ParamKind::kAlu, .doc = "add, multiply, maximum or minimum"},
    {.name = "reduce_res",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .optional = true,
     .doc = "[P,1]; none keeps the result in the accumulator"},
    {.name = "reverse0", .kind = ParamKind::kBool, .optional = true, .doc = "not supported"},
    {.name = "reduce_cmd",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kReduceCmdChoices,
     .doc = "reset_reduce (default), reduce or load_reduce"},
    {.name = "reduce_init",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "start of the accumulator, only for load_reduce"},
    {.name = "reduce_res_negate", .kind = ParamKind::kBool, .optional = true},
}};

AluOp op0_of(const Inst& inst) { return inst.choice(kOp0, AluOp::kAdd); }
AluOp reduce_op_of(const Inst& inst) { return inst.choice(kReduceOp, AluOp::kAdd); }
ReduceCmd command(const Inst& inst) { return inst.choice(kReduceCmd, ReduceCmd::kResetReduce); }

void check_command(const Inst& inst) {
  const ReduceCmd cmd = command(inst);
  if (cmd == ReduceCmd::kIdle || cmd == ReduceCmd::kReset) {
    fail(Rule::reduce_command, "reduce_cmd",
         std::string(kReduceCmdChoices.at(static_cast<std::size_t>(cmd))),
         "reset_reduce, reduce or load_reduce");
  }
  const bool loads = cmd == ReduceCmd::kLoadReduce;
  if (loads && !inst.has(kReduceInit))
    fail(Rule::argument_missing, "reduce_init", "missing", "a value for load_reduce");
  if (!loads && inst.has(kReduceInit)) {
    fail(Rule::argument_left_over, "reduce_init", "given without reduce_cmd load_reduce", "none");
  }
}

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  check_same_shape("data", data, "dst", dst);
  const AluOp op0 = op0_of(inst), op = reduce_op_of(inst);
  if (is_bitvec(op0))
    fail(Rule::operator_not_taken, "op0", std::string(name(op0)), "an arithmetic operator");
  check_alu_engine("op0", op0, inst.engine, machine);
  check_stage_operand("op0", op0, "operand0", inst.arg(kOperand0));
  check_scalar_operand("operand0", inst.arg(kOperand0), data.rows());
  if (inst.flag(kReverse0)) fail(Rule::argument_value, "reverse0", "set", "false (not supported)");
  using enum AluOp;
  if (op != kAdd && op != kMultiply && op != kMaximum && op != kMinimum) {
    fail(Rule::operator_not_taken, "reduce_op", std::string(name(op)),
         "add, multiply, maximum or minimum");
  }
  check_command(inst);
  check_scalar_operand("reduce_init", inst.arg(kReduceInit), data.rows());
  check_reduce_result(inst, kReduceRes, data.rows());
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& data = inst.tensor(kData);
  Accumulators& registers = ctx.state().vector_accumulator;
  const auto x = ctx.load(data);
  const float* init =
      inst.has(kReduceInit) ? ctx.column(inst.arg(kReduceInit), x.rows).data : nullptr;
  apply_stage(ctx, op0_of(inst), inst.arg(kOperand0), false, x);
  accumulate(registers, command(inst), reduce_op_of(inst), data.partition, x, init);
  ctx.store(inst.tensor(kDst), x);
  if (!inst.has(kReduceRes)) return;
  store_accumulator(ctx, registers, data.partition, inst.tensor(kReduceRes), inst.flag(kNegate));
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_with_read_out(inst, machine, kReduceRes, Opcode::kREAD_ACCUMULATOR, out);
  const AluOp op = reduce_op_of(inst);
  if (op == AluOp::kAdd || op == AluOp::kMaximum) out.parts[0].features |= kFeatReduceAddMax;
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_scalar_reduce",
    .doc = "A scalar operation and the reduction of its result along the free dimensions.",
    .semantics =
        "t[p,i] = op0(data[p,i], operand0[p]) in FP32; dst = t; acc[p] = reduce_op over i of t, "
        "from the identity (reset_reduce), acc (reduce) or reduce_init (load_reduce); reduce_res "
        "= acc, or -acc with reduce_res_negate",
    .cost = "max(64, N), plus 64 for the read-out when reduce_res is given",
    .sources = "nki.isa.tensor_scalar_reduce; 2.26 cost notes (order of the reduction assumed)",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kTENSOR_SCALAR_REDUCE,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kAlways,
    .undefined = OpSpec::Undefined::kIfComparing,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::tensor_scalar_reduce
