// Implements what the Scalar engine's instructions with an activation function share.
#include "isa/ops/shared/scalar_engine.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace nkisim::isa {
namespace {

struct TableSet {
  ActFn fn;
  std::uint32_t set;
};

// Functions not listed (copies, squares, signs) need no particular table.
constexpr std::array<TableSet, 20> kTableSets = {{
    {ActFn::kExp, 1},
    {ActFn::kLog, 1},
    {ActFn::kSoftplus, 1},
    {ActFn::kRsqrt, 2},
    {ActFn::kSqrt, 2},
    {ActFn::kReciprocal, 3},
    {ActFn::kGelu, 4},
    {ActFn::kGeluDx, 4},
    {ActFn::kErf, 4},
    {ActFn::kErfDx, 4},
    {ActFn::kGeluApprxTanh, 4},
    {ActFn::kGeluApprxSigmoid, 4},
    {ActFn::kGeluApprxSigmoidDx, 4},
    {ActFn::kSigmoid, 5},
    {ActFn::kTanh, 5},
    {ActFn::kSilu, 5},
    {ActFn::kSiluDx, 5},
    {ActFn::kMish, 5},
    {ActFn::kSin, 6},
    {ActFn::kArctan, 7},
}};

// On trn1 and inf2 the engine's exp is 0 where it is smaller than every normal number (measured;
// docs/values.md section 7).
void flush_exp(const Machine& machine, ActFn fn, float* y, std::size_t n) {
  if (fn != ActFn::kExp || machine.generation != Generation::kV2) return;
  for (std::size_t i = 0; i < n; ++i) y[i] = y[i] < std::numeric_limits<float>::min() ? 0.0F : y[i];
}

}  // namespace

std::uint32_t act_table_set(ActFn fn) {
  const auto* it = std::find_if(kTableSets.begin(), kTableSets.end(),
                                [&](const TableSet& t) { return t.fn == fn; });
  return it == kTableSets.end() ? 0 : it->set;
}

void apply_activation(const ActivateStage& stage, const Tile<float>& x) {
  if (stage.parameters == nullptr) {
    apply(stage.fn, x.data, stage.parameter, x.data, static_cast<std::size_t>(x.size()));
    return;
  }
  for (std::int64_t r = 0; r < x.rows; ++r) {
    apply(stage.fn, x.row(r), stage.parameters[r], x.row(r), static_cast<std::size_t>(x.columns));
  }
}

void finish_activation(const Inst& inst, OpContext& ctx, const Tile<float>& y,
                       const TensorRef& data, ReduceCmd cmd, AluOp reduce_op, int result_param) {
  ctx.store(inst.tensor(0), y);
  Accumulators& registers = ctx.state().scalar_accumulator;
  accumulate(registers, cmd, reduce_op, data.partition, y);
  if (inst.has(result_param)) {
    store_accumulator(ctx, registers, data.partition, inst.tensor(result_param));
  }
}

void expand_activation(const Inst& inst, const Machine& machine, const ActivationParams& p,
                       Expansion& out) {
  expand_with_read_out(inst, machine, p.reduce_res, Opcode::kACT_READ_ACCUMULATOR, out);
  const ActFn fn = inst.choice(p.op, ActFn::kCopy);
  Part& part = out.parts.front();
  if (inst.engine == Engine::kScalar) part.act_table = act_table_set(fn);
  if (fn == ActFn::kCopy && !inst.is_tensor(p.bias)) part.features |= kFeatNoBias;
  if (inst.is_tensor(p.scale)) part.features |= kFeatScaleTile;
  if (fn == ActFn::kSilu) part.features |= kFeatSilu;
}

void check_activation(const Inst& inst, const Machine& machine, const ActivationParams& p) {
  const TensorRef& data = inst.tensor(p.data);
  check_same_shape("data", data, "dst", inst.tensor(p.dst));
  check_scalar_operand("scale", inst.arg(p.scale), data.rows());
  check_column("bias", inst.arg(p.bias), data.rows());
  check_reduce_result(inst, p.reduce_res, data.rows());
  if (inst.is_tensor(p.bias) && inst.tensor(p.bias).dtype == Dtype::kTfloat32) {
    fail(Rule::operand_dtype, "bias", "tfloat32", "any other dtype");
  }
  if (!inst.has(p.bias) || machine.generation >= Generation::kV3) return;
  if (!inst.is_tensor(p.bias)) {
    fail(Rule::not_on_target, "bias", "a constant",
         "a tensor of one column on " + std::string(machine.target));
  }
  if (inst.choice(p.op, ActFn::kCopy) == ActFn::kReciprocal) {
    fail(Rule::not_on_target, "bias with op reciprocal is not available on " +
                                  std::string(machine.target) +
                                  "; trn2 is the first target that has it");
  }
}

void check_accumulator_engine(const Inst& inst, bool reduces) {
  if (!reduces || inst.engine == Engine::kScalar) return;
  fail(Rule::engine_operand, "engine", std::string(name(inst.engine)) + " with a reduction",
       "scalar, which has the registers for it");
}

void activate_rows(const Inst& inst, OpContext& ctx, const ActivationParams& p) {
  const TensorRef& data = inst.tensor(p.data);
  std::optional<Stage> scale, bias;
  if (inst.has(p.scale)) {
    scale.emplace(ctx, AluOp::kMultiply, inst.arg(p.scale), false, data.rows());
  }
  if (inst.has(p.bias)) bias.emplace(ctx, AluOp::kAdd, inst.arg(p.bias), false, data.rows());
  const ActivateStage stage{.fn = inst.choice(p.op, ActFn::kCopy)};
  ctx.map_rows({&data}, inst.tensor(p.dst),
               [&](std::int64_t r, const float* const* in, float* out, std::size_t n) {
                 const float* x = in[0];
                 if (scale) scale->apply_to(r, x, out, n), x = out;
                 if (bias) bias->apply_to(r, x, out, n), x = out;
                 apply(stage.fn, x, stage.parameter, out, n);
                 flush_exp(ctx.machine(), stage.fn, out, n);
               });
}

Tile<float> activate(const Inst& inst, OpContext& ctx, const ActivationParams& p) {
  const Tile<float> x = ctx.load(inst.tensor(p.data));
  if (inst.has(p.scale)) apply_stage(ctx, AluOp::kMultiply, inst.arg(p.scale), false, x);
  if (inst.has(p.bias)) apply_stage(ctx, AluOp::kAdd, inst.arg(p.bias), false, x);
  const ActFn fn = inst.choice(p.op, ActFn::kCopy);
  apply_activation({.fn = fn}, x);
  flush_exp(ctx.machine(), fn, x.data, static_cast<std::size_t>(x.size()));
  return x;
}

}  // namespace nkisim::isa
