// range_select: keeps the elements whose index lies in a range per partition, and reduces.
#include <limits>

#include "isa/ops/shared/accumulate.hpp"

namespace nkisim::isa::ops::range_select {
namespace {

enum {
  kDst,
  kOnTrueTile,
  kCompOp0,
  kCompOp1,
  kBound0,
  kBound1,
  kReduceCmd,
  kReduceRes,
  kReduceOp,
  kRangeStart,
  kOnFalseValue
};

constexpr float kFill = std::numeric_limits<float>::lowest();  // FP32_MIN, 0xff7fffff
constexpr std::int64_t kExact = std::int64_t{1} << 24U;        // integers FP32 can count

constexpr std::array<Param, 11> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "on_true_tile", .kind = ParamKind::kIn, .spaces = kOnChip, .dtypes = kFloats},
    {.name = "comp_op0", .kind = ParamKind::kAlu},
    {.name = "comp_op1", .kind = ParamKind::kAlu},
    {.name = "bound0",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = {Dtype::kFloat32},
     .doc = "[P,1]",
     .selects = true},
    {.name = "bound1",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = {Dtype::kFloat32},
     .doc = "[P,1]",
     .selects = true},
    {.name = "reduce_cmd",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kReduceCmdChoices,
     .doc = "default reset_reduce"},
    {.name = "reduce_res", .kind = ParamKind::kOut, .spaces = kOnChip, .optional = true},
    {.name = "reduce_op", .kind = ParamKind::kAlu, .optional = true, .doc = "maximum"},
    {.name = "range_start", .kind = ParamKind::kInt, .optional = true},
    {.name = "on_false_value",
     .kind = ParamKind::kReal,
     .optional = true,
     .doc = "must be FP32_MIN, the default"},
}};

ReduceCmd command(const Inst& inst) { return inst.choice(kReduceCmd, ReduceCmd::kResetReduce); }

void check_comparison(const Inst& inst, int param) {
  using enum AluOp;
  const AluOp op = inst.choice(param, kEqual);
  if (op == kEqual || op == kLess || op == kLessEqual || op == kGreater || op == kGreaterEqual) {
    return;
  }
  fail(Rule::operator_not_taken, kParams[static_cast<std::size_t>(param)].name,
       std::string(name(op)), "equal, less, less_equal, greater or greater_equal");
}

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kOnTrueTile);
  check_same_shape("on_true_tile", data, "dst", dst);
  check_comparison(inst, kCompOp0);
  check_comparison(inst, kCompOp1);
  check_column("bound0", inst.arg(kBound0), data.rows());
  check_column("bound1", inst.arg(kBound1), data.rows());
  check_reduce_result(inst, kReduceRes, data.rows());
  const AluOp op = inst.choice(kReduceOp, AluOp::kMaximum);
  if (op != AluOp::kMaximum)
    fail(Rule::operator_not_taken, "reduce_op", std::string(name(op)), "maximum");
  if (command(inst) == ReduceCmd::kLoadReduce) {
    fail(Rule::reduce_command, "reduce_cmd", "load_reduce", "idle, reset, reduce or reset_reduce");
  }
  const std::int64_t start = inst.integer(kRangeStart);
  if (start < -kExact || start + data.columns() > kExact) {
    fail(Rule::argument_value, "range_start", std::to_string(start),
         "range_start + index within 2^24");
  }
  if (inst.has(kOnFalseValue) && static_cast<float>(inst.real(kOnFalseValue)) != kFill) {
    fail(Rule::argument_value, "on_false_value", std::to_string(inst.real(kOnFalseValue)),
         "FP32_MIN (-3.4028235e+38)");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& data = inst.tensor(kOnTrueTile);
  const AluOp op0 = inst.choice(kCompOp0, AluOp::kEqual);
  const AluOp op1 = inst.choice(kCompOp1, AluOp::kEqual);
  const auto x = ctx.load(data);
  const auto low = ctx.load(inst.tensor(kBound0)), high = ctx.load(inst.tensor(kBound1));
  const auto index = ctx.make<float>(1, x.columns), keep0 = ctx.make<float>(1, x.columns),
             keep1 = ctx.make<float>(1, x.columns);
  const auto n = static_cast<std::size_t>(x.columns);
  for (std::int64_t i = 0; i < x.columns; ++i) {
    index.data[i] = static_cast<float>(inst.integer(kRangeStart) + i);
  }
  for (std::int64_t r = 0; r < x.rows; ++r) {
    apply_scalar(op0, index.data, low.data[r], false, keep0.data, n);
    apply_scalar(op1, index.data, high.data[r], false, keep1.data, n);
    for (std::int64_t i = 0; i < x.columns; ++i) {
      if (keep0.data[i] == 0.0F || keep1.data[i] == 0.0F) x.row(r)[i] = kFill;
    }
  }
  ctx.store(inst.tensor(kDst), x);
  reduce_maximum(inst, ctx, command(inst), data.partition, x, kReduceRes);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  expand_with_read_out(inst, machine, kReduceRes, Opcode::kREAD_ACCUMULATOR, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "range_select",
    .doc = "Keeps the elements whose index lies in a range per partition, and reduces.",
    .semantics =
        "j = range_start + i in FP32; dst[p,i] = comp_op0(j, bound0[p]) and comp_op1(j, bound1[p]) "
        "? on_true_tile[p,i] : FP32_MIN; acc[p] = max over i, under reduce_cmd; reduce_res = acc",
    .cost = "max(64, N), plus the read-out when reduce_res is given (assumed 64)",
    .sources = "nki.isa.range_select; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .since = Generation::kV3,
    .opcode = Opcode::kRANGE_SELECT,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kAlways,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::range_select
