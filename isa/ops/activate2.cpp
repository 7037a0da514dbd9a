// activate2: activation function after two scalar operations, with an optional reduction per row.
#include "isa/ops/shared/scalar_engine.hpp"

namespace nkisim::isa::ops::activate2 {
namespace {

enum {
  kDst,
  kOp,
  kData,
  kImm0,
  kImm1,
  kOp0,
  kOp1,
  kReluParam,
  kReverse0,
  kReverse1,
  kReduceOp,
  kReduceRes,
  kReduceCmd
};

constexpr std::array<Param, 13> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .indirect = true},
    {.name = "op", .kind = ParamKind::kAct, .doc = "activation function"},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip, .indirect = true},
    {.name = "imm0",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .doc = "constant or [P,1]: second operand of op0"},
    {.name = "imm1",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .doc = "constant or [P,1]: second operand of op1"},
    {.name = "op0", .kind = ParamKind::kAlu, .doc = "multiply, add, subtract or bypass"},
    {.name = "op1", .kind = ParamKind::kAlu, .doc = "after multiply: add, subtract or bypass"},
    {.name = "relu_param",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "constant or [P,1]: slope of prelu; 0.0 if absent"},
    {.name = "reverse0", .kind = ParamKind::kBool, .optional = true, .doc = "op0(imm0, data)"},
    {.name = "reverse1",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "op1(imm1, result of op0)"},
    {.name = "reduce_op",
     .kind = ParamKind::kAlu,
     .optional = true,
     .doc = "add, maximum, minimum, abs_max or abs_min"},
    {.name = "reduce_res",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .optional = true,
     .doc = "[P,1]: receives the reduce registers"},
    {.name = "reduce_cmd",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kReduceCmdChoices,
     .doc = "idle (absent), reset, reduce or reset_reduce"},
}};

struct Pair {
  AluOp op0, op1;
};
constexpr std::array<Pair, 6> kPairs = {{{AluOp::kMultiply, AluOp::kAdd},
                                         {AluOp::kMultiply, AluOp::kSubtract},
                                         {AluOp::kMultiply, AluOp::kBypass},
                                         {AluOp::kAdd, AluOp::kBypass},
                                         {AluOp::kSubtract, AluOp::kBypass},
                                         {AluOp::kBypass, AluOp::kBypass}}};

AluOp op0_of(const Inst& inst) { return inst.choice(kOp0, AluOp::kBypass); }
AluOp op1_of(const Inst& inst) { return inst.choice(kOp1, AluOp::kBypass); }
ReduceCmd cmd_of(const Inst& inst) { return inst.choice(kReduceCmd, ReduceCmd::kIdle); }

bool reduces(ReduceCmd cmd) { return cmd != ReduceCmd::kIdle; }

void check_stages(const Inst& inst) {
  const AluOp op0 = op0_of(inst), op1 = op1_of(inst);
  if (op0 == AluOp::kBypass && op1 != AluOp::kBypass) {
    fail(Rule::argument_missing,
         "op1 is " + std::string(name(op1)) + " without op0; op0 is required");
  }
  if (inst.flag(kReverse0) && op0 == AluOp::kBypass)
    fail(Rule::argument_left_over, "reverse0 is given without op0");
  if (inst.flag(kReverse1) && op1 == AluOp::kBypass)
    fail(Rule::argument_left_over, "reverse1 is given without op1");
  for (const Pair& pair : kPairs) {
    if (pair.op0 == op0 && pair.op1 == op1) return;
  }
  fail(Rule::operator_not_taken, "(op0, op1)",
       "(" + std::string(name(op0)) + ", " + std::string(name(op1)) + ")",
       "(multiply, add), (multiply, subtract), (multiply, bypass), (add, bypass), "
       "(subtract, bypass) or (bypass, bypass)");
}

void check_reduction(const Inst& inst) {
  const ReduceCmd cmd = cmd_of(inst);
  if (cmd == ReduceCmd::kLoadReduce) {
    fail(Rule::reduce_command, "reduce_cmd", "load_reduce", "idle, reset, reduce or reset_reduce");
  }
  if (!inst.has(kReduceOp)) {
    if (reduces(cmd)) fail(Rule::argument_missing, "reduce_op is missing; reduce_cmd needs it");
    return;
  }
  const AluOp op = inst.choice(kReduceOp, AluOp::kAdd);
  constexpr std::array<AluOp, 5> kAllowed = {AluOp::kAdd, AluOp::kMaximum, AluOp::kMinimum,
                                             AluOp::kAbsMax, AluOp::kAbsMin};
  for (AluOp allowed : kAllowed) {
    if (op == allowed) return;
  }
  fail(Rule::operator_not_taken, "reduce_op", std::string(name(op)),
       "add, maximum, minimum, abs_max or abs_min");
}

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& data = inst.tensor(kData);
  check_same_shape("data", data, "dst", inst.tensor(kDst));
  check_column("imm0", inst.arg(kImm0), data.rows());
  check_column("imm1", inst.arg(kImm1), data.rows());
  check_column("relu_param", inst.arg(kReluParam), data.rows());
  check_reduce_result(inst, kReduceRes, data.rows());
  if (inst.is_tensor(kImm0) && inst.is_tensor(kImm1) &&
      inst.tensor(kImm0).dtype != inst.tensor(kImm1).dtype) {
    fail(Rule::dtypes_differ, "imm1", std::string(name(inst.tensor(kImm1).dtype)),
         "the dtype of imm0, " + std::string(name(inst.tensor(kImm0).dtype)) + ",");
  }
  check_stages(inst);
  check_reduction(inst);
  check_accumulator_engine(inst, reduces(cmd_of(inst)) || inst.has(kReduceRes));
}

void eval(const Inst& inst, OpContext& ctx) {
  const Tile<float> x = ctx.load(inst.tensor(kData));
  if (op0_of(inst) != AluOp::kBypass) {
    apply_stage(ctx, op0_of(inst), inst.arg(kImm0), inst.flag(kReverse0), x);
  }
  if (op1_of(inst) != AluOp::kBypass) {
    apply_stage(ctx, op1_of(inst), inst.arg(kImm1), inst.flag(kReverse1), x);
  }
  const Tile<float> slopes = ctx.column(inst.arg(kReluParam), x.rows, 0.0F);
  apply_activation({.fn = inst.choice(kOp, ActFn::kCopy),
                    .parameter = slopes.data[0],
                    .parameters = inst.is_tensor(kReluParam) ? slopes.data : nullptr},
                   x);
  finish_activation(inst, ctx, x, inst.tensor(kData), cmd_of(inst),
                    inst.choice(kReduceOp, AluOp::kAdd), kReduceRes);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_activation(inst, machine, {kDst, kOp, kData, kImm1, kImm0, kReduceRes}, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "activate2",
    .doc = "Activation function after two scalar operations, with an optional reduction per row.",
    .semantics =
        "v = op1(op0(data, imm0), imm1), bypass skips a step, reverse swaps its operands; "
        "y = op(v, relu_param) in FP32; dst = y; reset: acc = identity of reduce_op; reduce: "
        "acc = reduce_op(acc, y over the free dimensions); reduce_res = acc",
    .cost = "not documented; as activation (assumed)",
    .sources =
        "nki.isa.activate2; engine: SDK 2.33; trainium3_arch. Assumed: order of the reduction, "
        "imm0 and imm1 of any "
        "dtype are widened to FP32",
    .engines = kActivationEngines,
    .params = kParams,
    .since = Generation::kV4,
    .opcode = Opcode::kACTIVATE2,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kIfReducing,
    .depends = OpSpec::Depends::kElement,
};

}  // namespace nkisim::isa::ops::activate2
