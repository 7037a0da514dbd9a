// Implements the accumulator registers (nki.isa.reduce_cmd): one FP32 per partition and engine.
#include "isa/ops/shared/accumulate.hpp"

#include <algorithm>

namespace nkisim::isa {

void accumulate(Accumulators& registers, ReduceCmd cmd, AluOp op, int first_lane,
                const Tile<float>& values, const float* init) {
  if (cmd == ReduceCmd::kIdle) return;
  float* lanes = registers.data() + first_lane;
  const auto rows = static_cast<std::size_t>(values.rows);
  if (cmd == ReduceCmd::kReset || cmd == ReduceCmd::kResetReduce) {
    std::fill_n(lanes, rows, traits(op).identity);
  }
  if (cmd == ReduceCmd::kLoadReduce) std::copy_n(init, rows, lanes);
  if (cmd == ReduceCmd::kReset) return;
  reduce_rows(op,
              {.data = values.data,
               .rows = rows,
               .columns = static_cast<std::size_t>(values.columns),
               .row_stride = static_cast<std::ptrdiff_t>(values.columns),
               .column_stride = 1},
              lanes);
}

void store_accumulator(OpContext& ctx, const Accumulators& registers, int first_lane,
                       const TensorRef& result, bool negate) {
  const Tile<float> out = ctx.make<float>(result.rows(), 1);
  std::copy_n(registers.data() + first_lane, out.rows, out.data);
  if (negate) {
    apply_scalar(AluOp::kMultiply, out.data, -1.0F, false, out.data,
                 static_cast<std::size_t>(out.rows));
  }
  ctx.store(result, out);
}

void reduce_maximum(const Inst& inst, OpContext& ctx, ReduceCmd cmd, int first_lane,
                    const Tile<float>& values, int result_param) {
  Accumulators& registers = ctx.state().vector_accumulator;
  accumulate(registers, cmd, AluOp::kMaximum, first_lane, values);
  if (inst.has(result_param)) {
    store_accumulator(ctx, registers, first_lane, inst.tensor(result_param));
  }
}

void check_reduce_result(const Inst& inst, int param, std::int64_t rows) {
  check_column(spec(inst).params[static_cast<std::size_t>(param)].name, inst.arg(param), rows);
}

void expand_with_read_out(const Inst& inst, const Machine& machine, int result_param,
                          Opcode read_opcode, Expansion& out) {
  if (!inst.has(result_param)) {
    out.parts.push_back(default_part(inst, machine));
    return;
  }
  const std::uint32_t all = (1U << inst.args.size()) - 1U;
  const std::uint32_t result = 1U << static_cast<unsigned>(result_param);
  out.parts.push_back(default_part(inst, machine, all & ~result));
  Part read = default_part(inst, machine, result);
  read.opcode = read_opcode;
  out.parts.push_back(read);
}

}  // namespace nkisim::isa
