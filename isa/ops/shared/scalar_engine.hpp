// Declares the code that the Scalar engine's instructions with an activation function share.
#pragma once

#include "isa/ops/shared/accumulate.hpp"

namespace nkisim::isa {

/// GpSimd applies functions from trn3 on; what it has applied cannot be summed there.
inline constexpr std::array<EngineRule, 2> kActivationEngines = {
    {{Engine::kScalar}, {Engine::kGpSimd, Generation::kV4}}};

/// The set of function tables that the engine must hold: 0 = any. The chip loads tables by sets
/// (named like "natural_log_exp_and_others" in compiled programs). The grouping is assumed: it is
/// not published.
[[nodiscard]] std::uint32_t act_table_set(ActFn fn);

/// Everything between the operands and the destination.
struct ActivateStage {
  ActFn fn = ActFn::kCopy;
  float parameter = 0.0F;             // slope of prelu, one for all rows
  const float* parameters = nullptr;  // or one per row
};
/// y = fn(x) in place, row by row.
void apply_activation(const ActivateStage& stage, const Tile<float>& x);

/// Ends an activation: stores `y`, runs the reduction on the registers of the data's partitions and
/// reads them out into parameter `result_param` if it is given.
void finish_activation(const Inst& inst, OpContext& ctx, const Tile<float>& y,
                       const TensorRef& data, ReduceCmd cmd, AluOp reduce_op, int result_param);

/// The operands `activation` and `activation_reduce` share, by parameter index.
struct ActivationParams {
  int dst, op, data, bias, scale, reduce_res;
};
/// ACTIVATE (or the op's opcode), then ACT_READ_ACCUMULATOR if `reduce_res` is given.
void expand_activation(const Inst& inst, const Machine& machine, const ActivationParams& p,
                       Expansion& out);
/// Shapes, bias and scale rules of both.
void check_activation(const Inst& inst, const Machine& machine, const ActivationParams& p);
/// The reduction registers are the scalar engine's. Throws Error where `reduces` runs elsewhere.
void check_accumulator_engine(const Inst& inst, bool reduces);
/// fn(data * scale + bias) in FP32.
[[nodiscard]] Tile<float> activate(const Inst& inst, OpContext& ctx, const ActivationParams& p);
/// The same, row by row and stored: for tiles of long rows of which nothing is reduced.
void activate_rows(const Inst& inst, OpContext& ctx, const ActivationParams& p);

}  // namespace nkisim::isa
