// tensor_scalar_cumulative: a scalar operation and a running reduction along the free dimension.
#include <algorithm>

#include "isa/ops/shared/accumulate.hpp"

namespace nkisim::isa::ops::tensor_scalar_cumulative {
namespace {

enum { kDst, kSrc, kOp0, kOp1, kImm0, kImm1, kReduceCmd };

// 32-bit integers do not fit the instruction.
constexpr Dtypes kDtypes = (kFloats - Dtypes{Dtype::kTfloat32}) |
                           Dtypes{Dtype::kInt8, Dtype::kUint8, Dtype::kInt16, Dtype::kUint16};

constexpr std::array<Param, 7> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kDtypes,
     .indirect = true},
    {.name = "src", .kind = ParamKind::kIn, .spaces = kOnChip, .dtypes = kDtypes, .indirect = true},
    {.name = "op0", .kind = ParamKind::kAlu},
    {.name = "op1", .kind = ParamKind::kAlu, .doc = "add, subtract, multiply, maximum, minimum"},
    {.name = "imm0",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "constant or [P,1] float32; none or 0 for a unary op0"},
    {.name = "imm1",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "start of the accumulator for load_reduce"},
    {.name = "reduce_cmd",
     .kind = ParamKind::kEnum,
     .optional = true,
     .choices = kReduceCmdChoices,
     .doc = "reset_reduce (default), reduce or load_reduce"},
}};

AluOp op0_of(const Inst& inst) { return inst.choice(kOp0, AluOp::kAdd); }
AluOp op1_of(const Inst& inst) { return inst.choice(kOp1, AluOp::kAdd); }
ReduceCmd command(const Inst& inst) { return inst.choice(kReduceCmd, ReduceCmd::kResetReduce); }

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kSrc);
  check_same_shape("src", src, "dst", dst);
  const AluOp op0 = op0_of(inst), op1 = op1_of(inst);
  if (is_bitvec(op0))
    fail(Rule::operator_not_taken, "op0", std::string(name(op0)), "an arithmetic operator");
  check_alu_engine("op0", op0, inst.engine, machine);
  check_stage_operand("op0", op0, "imm0", inst.arg(kImm0));
  using enum AluOp;
  if (op1 != kAdd && op1 != kSubtract && op1 != kMultiply && op1 != kMaximum && op1 != kMinimum) {
    fail(Rule::operator_not_taken, "op1", std::string(name(op1)),
         "add, subtract, multiply, maximum or minimum");
  }
  check_scalar_operand("imm0", inst.arg(kImm0), src.rows());
  check_scalar_operand("imm1", inst.arg(kImm1), src.rows());
  const ReduceCmd cmd = command(inst);
  if (cmd == ReduceCmd::kIdle || cmd == ReduceCmd::kReset) {
    fail(Rule::reduce_command, "reduce_cmd",
         std::string(kReduceCmdChoices.at(static_cast<std::size_t>(cmd))),
         "reset_reduce, reduce or load_reduce");
  }
  if (cmd == ReduceCmd::kLoadReduce && !inst.has(kImm1)) {
    fail(Rule::argument_missing, "imm1", "missing", "a start value for load_reduce");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& src = inst.tensor(kSrc);
  const AluOp op1 = op1_of(inst);
  const auto x = ctx.load(src);
  apply_stage(ctx, op0_of(inst), inst.arg(kImm0), false, x);
  const float* init =
      command(inst) == ReduceCmd::kLoadReduce ? ctx.column(inst.arg(kImm1), x.rows).data : nullptr;
  float* lanes = ctx.state().vector_accumulator.data() + src.partition;
  const auto rows = static_cast<std::size_t>(x.rows);
  if (command(inst) == ReduceCmd::kResetReduce) std::fill_n(lanes, rows, traits(op1).identity);
  if (command(inst) == ReduceCmd::kLoadReduce) {
    std::copy_n(init, rows, lanes);
  }
  const auto columns = transposed(ctx, x);
  for (std::int64_t i = 0; i < columns.rows; ++i) {
    apply(op1, columns.row(i), lanes, lanes, rows);
    std::copy_n(lanes, rows, columns.row(i));
  }
  ctx.store(inst.tensor(kDst), transposed(ctx, columns));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_scalar_cumulative",
    .doc = "A scalar operation and a running reduction along the free dimension.",
    .semantics =
        "reg[p] = op1(op0(src[p,i], imm0[p]), reg[p]); dst[p,i] = reg[p]; strictly in order; reg "
        "starts at the identity of op1 (reset_reduce), at imm1 (load_reduce) or as it was "
        "(reduce), and stays in VectorE's accumulators",
    .cost = "not documented",
    .sources = "nki.isa.tensor_scalar_cumulative (lanes are the partitions of src: assumed)",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kTENSOR_SCALAR_CUMULATIVE,
    .check = check,
    .eval = eval,
    .state = OpSpec::State::kAlways,
    .undefined = OpSpec::Undefined::kIfComparing,
};

}  // namespace nkisim::isa::ops::tensor_scalar_cumulative
