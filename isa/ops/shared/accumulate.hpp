// Implements the accumulator registers (nki.isa.reduce_cmd): an engine keeps one FP32 per partition
// between instructions.
#pragma once

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa {

/// nki.isa.reduce_cmd, in the order of its values.
enum class ReduceCmd : std::uint8_t { kIdle, kReset, kReduce, kResetReduce, kLoadReduce };
inline constexpr std::array<std::string_view, 5> kReduceCmdChoices = {
    "idle", "reset", "reduce", "reset_reduce", "load_reduce"};

using Accumulators = std::array<float, kPartitions>;

/// Applies `cmd` to the registers of lanes [first_lane, first_lane + values.rows): resets them to
/// the identity of `op`, loads `init` (one value per row), or keeps them, and then reduces the row
/// of `values` into each unless the command says not to. Idle leaves them alone (assumed: the
/// documents call them undefined afterwards).
void accumulate(Accumulators& registers, ReduceCmd cmd, AluOp op, int first_lane,
                const Tile<float>& values, const float* init = nullptr);

/// Writes the registers from `first_lane` on to a tile of one column, negated if asked.
void store_accumulator(OpContext& ctx, const Accumulators& registers, int first_lane,
                       const TensorRef& result, bool negate = false);

/// VectorE: the maximum of the rows of `values` under `cmd`, and to parameter `result_param` where
/// it is given.
void reduce_maximum(const Inst& inst, OpContext& ctx, ReduceCmd cmd, int first_lane,
                    const Tile<float>& values, int result_param);

/// Rules of an optional reduce_res operand: `rows` partitions, one column.
void check_reduce_result(const Inst& inst, int param, std::int64_t rows);

/// The instruction as one part, plus a second that reads the accumulator out into parameter
/// `result_param` where that is given.
void expand_with_read_out(const Inst& inst, const Machine& machine, int result_param,
                          Opcode read_opcode, Expansion& out);

}  // namespace nkisim::isa
