// activation_reduce: activation function of a scaled and biased tile and its reduction along each
// row.
#include "isa/ops/shared/scalar_engine.hpp"

namespace nkisim::isa::ops::activation_reduce {
namespace {

enum { kDst, kOp, kData, kReduceOp, kReduceRes, kBias, kScale };

constexpr ActivationParams kShared = {kDst, kOp, kData, kBias, kScale, kReduceRes};

constexpr std::array<Param, 7> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .indirect = true},
    {.name = "op", .kind = ParamKind::kAct, .doc = "activation function"},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip, .indirect = true},
    {.name = "reduce_op", .kind = ParamKind::kAlu, .doc = "add, all that the registers can do"},
    {.name = "reduce_res",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .optional = true,
     .doc = "[P,1]: the reduction of each row; absent: it stays in the registers"},
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
}};

void check(const Inst& inst, const Machine& machine) {
  check_activation(inst, machine, kShared);
  const AluOp op = inst.choice(kReduceOp, AluOp::kAdd);
  if (op == AluOp::kAdd) return;
  fail(Rule::operator_not_taken, "reduce_op", std::string(name(op)),
       "add (of others: tensor_reduce, or activate2 on trn3)");
}

void eval(const Inst& inst, OpContext& ctx) {
  finish_activation(inst, ctx, activate(inst, ctx, kShared), inst.tensor(kData),
                    ReduceCmd::kResetReduce, AluOp::kAdd, kReduceRes);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_activation(inst, machine, kShared, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "activation_reduce",
    .doc = "Activation function of a scaled and biased tile and its reduction along each row.",
    .semantics =
        "y = op(data * scale + bias) in FP32; dst = y; acc = sum over the free dimensions of "
        "y; reduce_res = acc",
    .cost = "ScalarE: max(64, N) + 64",
    .sources =
        "nki.isa.activation_reduce (add alone: SDK 2.33); 2.26 cost notes. Assumed: order of the "
        "reduction",
    .engines = kScalarOnly,
    .params = kParams,
    .opcode = Opcode::kACTIVATE,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kAlways,
    .depends = OpSpec::Depends::kElement,
};

}  // namespace nkisim::isa::ops::activation_reduce
