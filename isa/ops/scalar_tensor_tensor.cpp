// scalar_tensor_tensor: a scalar operation and then an element-wise one, in one pass.
#include "isa/ops/shared/accumulate.hpp"

namespace nkisim::isa::ops::scalar_tensor_tensor {
namespace {

enum {
  kDst,
  kData,
  kOp0,
  kOperand0,
  kOp1,
  kOperand1,
  kReverse0,
  kReverse1,
  kReduceCmd,
  kReduceOp,
  kReduceRes
};

constexpr std::array<Param, 11> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "op0", .kind = ParamKind::kAlu},
    {.name = "operand0", .kind = ParamKind::kScalarOrTensor, .spaces = kOnChip, .optional = true},
    {.name = "op1", .kind = ParamKind::kAlu},
    {.name = "operand1", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "reverse0", .kind = ParamKind::kBool, .optional = true},
    {.name = "reverse1", .kind = ParamKind::kBool, .optional = true},
    {.name = "reduce_cmd",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kReduceCmdChoices,
     .doc = "of a reduction: reset_reduce or reduce"},
    {.name = "reduce_op",
     .kind = ParamKind::kAlu,
     .optional = true,
     .doc = "add, multiply, maximum or minimum of the result; absent: none"},
    {.name = "reduce_res",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .optional = true,
     .doc = "[P,1]; none keeps the reduction in the accumulator"},
}};

AluOp op0_of(const Inst& inst) { return inst.choice(kOp0, AluOp::kAdd); }
AluOp op1_of(const Inst& inst) { return inst.choice(kOp1, AluOp::kAdd); }
bool reduces(const Inst& inst) { return inst.has(kReduceOp); }
ReduceCmd command(const Inst& inst) { return inst.choice(kReduceCmd, ReduceCmd::kIdle); }

void check_reduction(const Inst& inst) {
  if (!reduces(inst)) {
    if (inst.has(kReduceRes) || inst.has(kReduceCmd))
      fail(Rule::argument_missing, "reduce_op is missing; reduce_cmd and reduce_res need it");
    return;
  }
  if (!inst.has(kReduceCmd))
    fail(Rule::argument_missing, "reduce_cmd is missing; reduce_op needs it");
  const ReduceCmd cmd = command(inst);
  if (cmd != ReduceCmd::kResetReduce && cmd != ReduceCmd::kReduce) {
    fail(Rule::reduce_command, "reduce_cmd",
         std::string(kReduceCmdChoices.at(static_cast<std::size_t>(cmd))),
         "reset_reduce or reduce");
  }
  const AluOp op = inst.choice(kReduceOp, AluOp::kAdd);
  using enum AluOp;
  if (op != kAdd && op != kMultiply && op != kMaximum && op != kMinimum) {
    fail(Rule::operator_not_taken, "reduce_op", std::string(name(op)),
         "add, multiply, maximum or minimum");
  }
  check_reduce_result(inst, kReduceRes, inst.tensor(kData).rows());
}

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const TensorRef& operand1 = inst.tensor(kOperand1);
  check_same_shape("data", data, "operand1", operand1);
  check_same_shape("data", data, "dst", dst);
  check_not_both_psum("data", data, "operand1", operand1);
  const AluOp op0 = op0_of(inst);
  if (is_bitvec(op0))
    fail(Rule::operator_not_taken, "op0", std::string(name(op0)), "an arithmetic operator");
  check_alu_engine("op0", op0, inst.engine, machine);
  check_stage_operand("op0", op0, "operand0", inst.arg(kOperand0));
  check_arithmetic("op1", op1_of(inst), inst.engine, machine);
  check_column("operand0", inst.arg(kOperand0), data.rows());
  check_reduction(inst);
}

// The result as a whole, which the registers then reduce.
void eval_reducing(const Inst& inst, OpContext& ctx) {
  const TensorRef& data = inst.tensor(kData);
  const auto t = ctx.load(data), b = ctx.load(inst.tensor(kOperand1));
  apply_stage(ctx, op0_of(inst), inst.arg(kOperand0), inst.flag(kReverse0), t);
  const bool reverse = inst.flag(kReverse1);
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const float *x = reverse ? b.row(r) : t.row(r), *y = reverse ? t.row(r) : b.row(r);
    apply(op1_of(inst), x, y, t.row(r), static_cast<std::size_t>(t.columns));
  }
  Accumulators& registers = ctx.state().vector_accumulator;
  accumulate(registers, command(inst), inst.choice(kReduceOp, AluOp::kAdd), data.partition, t);
  ctx.store(inst.tensor(kDst), t);
  if (inst.has(kReduceRes)) {
    store_accumulator(ctx, registers, data.partition, inst.tensor(kReduceRes));
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  if (reduces(inst)) return eval_reducing(inst, ctx);
  const TensorRef& data = inst.tensor(kData);
  const Stage first(ctx, op0_of(inst), inst.arg(kOperand0), inst.flag(kReverse0), data.rows());
  const AluOp op1 = op1_of(inst);
  const bool reverse = inst.flag(kReverse1);
  const auto t = ctx.make<float>(1, data.columns());  // dst may be operand1
  ctx.map_rows({&data, &inst.tensor(kOperand1)}, inst.tensor(kDst),
               [&](std::int64_t r, const float* const* in, float* out, std::size_t n) {
                 first.apply_to(r, in[0], t.data, n);
                 apply(op1, reverse ? in[1] : t.data, reverse ? t.data : in[1], out, n);
               });
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_with_read_out(inst, machine, kReduceRes, Opcode::kREAD_ACCUMULATOR, out);
  Part& part = out.parts.front();
  if (op0_of(inst) == AluOp::kSubtract && op1_of(inst) == AluOp::kMultiply) {
    part.features |= kFeatSubMul;
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "scalar_tensor_tensor",
    .doc = "A scalar operation and then an element-wise one, in one pass.",
    .semantics =
        "dst[p,i] = op1(op0(data[p,i], operand0[p]), operand1[p,i]), reverse0/reverse1 swapping "
        "the sides; FP32, arithmetic operators only; with reduce_op: acc[p] = reduce_op over i of "
        "dst's values before the cast, from the identity (reset_reduce) or acc (reduce); "
        "reduce_res = acc",
    .cost = "N if data and operand1 are bf16, op0 subtract, op1 multiply and N even; else 2N",
    .sources =
        "nki.isa.scalar_tensor_tensor; 2.26 cost notes. Reduction: SDK 2.33; assumed: its "
        "operators "
        "and its read-out as of tensor_scalar_reduce",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kSCALAR_TENSOR_TENSOR,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kIfReducing,
    .undefined = OpSpec::Undefined::kIfComparing,
    .depends = OpSpec::Depends::kElement,
};

}  // namespace nkisim::isa::ops::scalar_tensor_tensor
