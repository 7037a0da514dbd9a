// activation: activation function of a scaled and biased tile, with an optional running sum per
// row.
#include "isa/ops/shared/scalar_engine.hpp"

namespace nkisim::isa::ops::activation {
namespace {

enum { kDst, kOp, kData, kBias, kScale, kReduceOp, kReduceRes, kReduceCmd };

constexpr ActivationParams kShared = {kDst, kOp, kData, kBias, kScale, kReduceRes};

constexpr std::array<Param, 8> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .indirect = true},
    {.name = "op", .kind = ParamKind::kAct, .doc = "activation function"},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip, .indirect = true},
    {.name = "bias",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "added after the scale: a [P,1] tile, from trn2 on also a constant"},
    {.name = "scale",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "constant or [P,1] float32; 1.0 if absent"},
    {.name = "reduce_op", .kind = ParamKind::kAlu, .optional = true, .doc = "add"},
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

bool reduces(const Inst& inst) {
  return inst.choice(kReduceCmd, ReduceCmd::kIdle) != ReduceCmd::kIdle || inst.has(kReduceRes);
}

void check(const Inst& inst, const Machine& machine) {
  check_activation(inst, machine, kShared);
  check_accumulator_engine(inst, reduces(inst));
  const AluOp reduce_op = inst.choice(kReduceOp, AluOp::kAdd);
  if (reduce_op != AluOp::kAdd)
    fail(Rule::operator_not_taken, "reduce_op", std::string(name(reduce_op)), "add");
  if (inst.choice(kReduceCmd, ReduceCmd::kIdle) == ReduceCmd::kLoadReduce) {
    fail(Rule::reduce_command, "reduce_cmd", "load_reduce", "idle, reset, reduce or reset_reduce");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  constexpr std::int64_t kLongRow = 64;  // shorter ones cost more one by one
  if (!reduces(inst) && inst.tensor(kData).columns() >= kLongRow) {
    return activate_rows(inst, ctx, kShared);
  }
  finish_activation(inst, ctx, activate(inst, ctx, kShared), inst.tensor(kData),
                    inst.choice(kReduceCmd, ReduceCmd::kIdle), AluOp::kAdd, kReduceRes);
}

// The function, the scale and the bias leave it as it is, and nothing is reduced.
bool only_copies(const Inst& inst) {
  return inst.choice(kOp, ActFn::kCopy) == ActFn::kCopy && !inst.is_tensor(kScale) &&
         inst.real(kScale, 1.0) == 1.0 && !inst.is_tensor(kBias) && inst.real(kBias) == 0.0 &&
         !inst.has(kReduceOp) && !inst.has(kReduceRes) &&
         inst.choice(kReduceCmd, ReduceCmd::kIdle) == ReduceCmd::kIdle;
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_activation(inst, machine, kShared, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "activation",
    .doc = "Activation function of a scaled and biased tile, with an optional running sum per row.",
    .semantics =
        "y = op(data * scale + bias) in FP32; dst = y; reset: acc = 0; reduce: acc += sum of y "
        "over the free dimensions; reset_reduce: both; reduce_res = acc",
    .cost = "ScalarE: max(64, N); reading the accumulator out: 64 more",
    .sources =
        "nki.isa.activation; engine: SDK 2.33; 2.26 cost notes; trainium_inferentia2_arch "
        "(ActReadAccumulator). "
        "Assumed: scale and bias round separately, the sum runs in order, prelu's slope is 0 here, "
        "registers are those of data's partitions",
    .engines = kActivationEngines,
    .params = kParams,
    .opcode = Opcode::kACTIVATE,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kIfReducing,
    .depends = OpSpec::Depends::kElement,
    .only_copies = only_copies,
};

}  // namespace nkisim::isa::ops::activation
