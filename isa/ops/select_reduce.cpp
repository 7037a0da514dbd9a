// select_reduce: selects by a predicate between a tile and one value per partition, and reduces.
#include "isa/ops/shared/accumulate.hpp"

namespace nkisim::isa::ops::select_reduce {
namespace {

enum { kDst, kPredicate, kOnTrue, kOnFalse, kReduceRes, kReduceCmd, kReduceOp, kReversePred };

constexpr std::array<Param, 8> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "predicate",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = {Dtype::kInt8, Dtype::kUint8, Dtype::kInt16, Dtype::kUint16},
     .selects = true},
    {.name = "on_true",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = kComputeDtypes - Dtypes{Dtype::kTfloat32, Dtype::kInt32, Dtype::kUint32}},
    {.name = "on_false",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .doc = "constant or [P,1]"},
    {.name = "reduce_res",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kFloats,
     .optional = true},
    {.name = "reduce_cmd",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kReduceCmdChoices,
     .doc = "default idle"},
    {.name = "reduce_op", .kind = ParamKind::kAlu, .optional = true, .doc = "maximum"},
    {.name = "reverse_pred", .kind = ParamKind::kBool, .optional = true},
}};

ReduceCmd command(const Inst& inst) { return inst.choice(kReduceCmd, ReduceCmd::kIdle); }

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &predicate = inst.tensor(kPredicate);
  const TensorRef& data = inst.tensor(kOnTrue);
  check_same_shape("on_true", data, "predicate", predicate);
  check_same_shape("on_true", data, "dst", dst);
  check_not_both_psum("on_true", data, "predicate", predicate);
  check_column("on_false", inst.arg(kOnFalse), data.rows());
  check_reduce_result(inst, kReduceRes, data.rows());
  const AluOp op = inst.choice(kReduceOp, AluOp::kMaximum);
  if (op != AluOp::kMaximum)
    fail(Rule::operator_not_taken, "reduce_op", std::string(name(op)), "maximum");
  if (command(inst) == ReduceCmd::kLoadReduce) {
    fail(Rule::reduce_command, "reduce_cmd", "load_reduce", "idle, reset, reduce or reset_reduce");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& data = inst.tensor(kOnTrue);
  const auto x = ctx.load(data);
  const auto predicate = ctx.load_bits(inst.tensor(kPredicate));
  const auto on_false = ctx.column(inst.arg(kOnFalse), x.rows);
  const bool reverse = inst.flag(kReversePred);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::uint32_t* p = predicate.row(r);
    float* row = x.row(r);
    const float other = on_false.data[r];
    for (std::int64_t i = 0; i < x.columns; ++i) row[i] = (p[i] != 0) != reverse ? row[i] : other;
  }
  ctx.store(inst.tensor(kDst), x);
  reduce_maximum(inst, ctx, command(inst), data.partition, x, kReduceRes);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_with_read_out(inst, machine, kReduceRes, Opcode::kREAD_ACCUMULATOR, out);
  out.parts[0].dtype = inst.tensor(kOnTrue).dtype;
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "select_reduce",
    .doc = "Selects by a predicate between a tile and one value per partition, and reduces.",
    .semantics =
        "dst[p,i] = (predicate[p,i] != 0) xor reverse_pred ? on_true[p,i] : on_false[p] through "
        "FP32; acc[p] = max over i, under reduce_cmd; reduce_res = acc. The documents write "
        "reverse_pred as ~predicate but describe a reversed meaning: logical here (assumed)",
    .cost = "not documented",
    .sources = "nki.isa.select_reduce",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kSELECT_REDUCE,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kIfReducing,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::select_reduce
