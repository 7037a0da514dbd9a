// exponential: exponential of a tile after subtracting a maximum, with an optional running sum.
#include "isa/ops/shared/accumulate.hpp"

namespace nkisim::isa::ops::exponential {
namespace {

enum { kDst, kSrc, kMaxValue, kReduceRes, kReduceCmd, kReduceInit };

constexpr Dtypes kFloatResults = {Dtype::kFloat8E4m3, Dtype::kFloat8E5m2, Dtype::kFloat16,
                                  Dtype::kBfloat16,   Dtype::kFloat32,    Dtype::kTfloat32};
constexpr Dtypes kSmallIntegers = {Dtype::kInt8, Dtype::kInt16, Dtype::kInt32, Dtype::kUint8,
                                   Dtype::kUint16};
constexpr Dtypes kSources =
    (kFloatResults - Dtypes{Dtype::kTfloat32}) | kSmallIntegers | Dtypes{Dtype::kUint32};

constexpr std::array<Param, 6> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kFloatResults | kSmallIntegers,
     .indirect = true,
     .free_dims = 3},
    {.name = "src",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = kSources,
     .indirect = true,
     .free_dims = 3},
    {.name = "max_value",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "constant or [P,1] float32, subtracted first; 0.0 if absent"},
    {.name = "reduce_res",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kFloatResults,
     .optional = true,
     .doc = "[P,1]: receives the accumulator"},
    {.name = "reduce_cmd",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kReduceCmdChoices,
     .doc = "idle (absent), reset_reduce, reduce or load_reduce"},
    {.name = "reduce_init",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "constant or [P,1] float32: start of load_reduce"},
}};

ReduceCmd cmd_of(const Inst& inst) { return inst.choice(kReduceCmd, ReduceCmd::kIdle); }

void check(const Inst& inst, const Machine& /*machine*/) {
  constexpr std::size_t kMostDims = 4;
  const TensorRef& src = inst.tensor(kSrc);
  check_same_shape("src", src, "dst", inst.tensor(kDst));
  if (src.shape().size() > kMostDims)
    fail(Rule::operand_size, "src", describe(src), "at most 4 dimensions");
  check_scalar_operand("max_value", inst.arg(kMaxValue), src.rows());
  check_scalar_operand("reduce_init", inst.arg(kReduceInit), src.rows());
  check_reduce_result(inst, kReduceRes, src.rows());
  if (cmd_of(inst) == ReduceCmd::kReset) {
    fail(Rule::reduce_command, "reduce_cmd", "reset", "idle, reset_reduce, reduce or load_reduce");
  }
  if (cmd_of(inst) != ReduceCmd::kLoadReduce && !is_absent_or_zero(inst.arg(kReduceInit))) {
    fail(Rule::argument_left_over,
         "reduce_init is given without load_reduce; 0.0 or none is required");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& src = inst.tensor(kSrc);
  const Tile<float> x = ctx.load(src);
  apply_stage(ctx, AluOp::kSubtract, inst.arg(kMaxValue), false, x);
  apply(ActFn::kExp, x.data, 0.0F, x.data, static_cast<std::size_t>(x.size()));
  const Tile<float> init = ctx.column(inst.arg(kReduceInit), x.rows);
  Accumulators& registers = ctx.state().vector_accumulator;
  accumulate(registers, cmd_of(inst), AluOp::kAdd, src.partition, x, init.data);
  ctx.store(inst.tensor(kDst), x);
  if (inst.has(kReduceRes)) {
    store_accumulator(ctx, registers, src.partition, inst.tensor(kReduceRes));
  }
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_with_read_out(inst, machine, kReduceRes, Opcode::kREAD_ACCUMULATOR, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "exponential",
    .doc = "Exponential of a tile after subtracting a maximum, with an optional running sum.",
    .semantics =
        "dst = exp(src - max_value) in FP32; reset_reduce: acc = 0; load_reduce: acc = "
        "reduce_init; then, unless idle, acc += sum of dst over the free dimensions; "
        "reduce_res = acc",
    .cost = "VectorE: 4 elements per lane and cycle (derived from trn3's 4x of ScalarE)",
    .sources =
        "nki.isa.exponential; trainium3_arch. Assumed: order of the sum, idle leaves the "
        "accumulator alone, the sum takes the FP32 results before the cast to dst",
    .engines = kVectorOnly,
    .params = kParams,
    .since = Generation::kV4,
    .opcode = Opcode::kEXPONENTIAL,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kIfReducing,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::exponential
