// tensor_tensor_scan: a running recurrence along the free dimension of two tiles.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::tensor_tensor_scan {
namespace {

enum { kDst, kData0, kData1, kInitial, kOp0, kOp1, kReverse0, kReverse1 };

constexpr std::array<Param, 8> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "data0", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "data1", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "initial",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .doc = "constant or a tile of one column"},
    {.name = "op0", .kind = ParamKind::kAlu},
    {.name = "op1", .kind = ParamKind::kAlu},
    {.name = "reverse0", .kind = ParamKind::kBool, .optional = true},
    {.name = "reverse1", .kind = ParamKind::kBool, .optional = true},
}};

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &a = inst.tensor(kData0), &b = inst.tensor(kData1);
  check_same_shape("data0", a, "data1", b);
  check_same_shape("data0", a, "dst", dst);
  check_not_both_psum("data0", a, "data1", b);
  check_column("initial", inst.arg(kInitial), a.rows());
  check_arithmetic("op0", inst.choice(kOp0, AluOp::kAdd), inst.engine, machine);
  check_arithmetic("op1", inst.choice(kOp1, AluOp::kAdd), inst.engine, machine);
}

// All partitions advance together, one column at a time, so that each step is a vector operation.
void eval(const Inst& inst, OpContext& ctx) {
  const AluOp op0 = inst.choice(kOp0, AluOp::kAdd), op1 = inst.choice(kOp1, AluOp::kAdd);
  const bool reverse0 = inst.flag(kReverse0), reverse1 = inst.flag(kReverse1);
  const auto rows = static_cast<std::size_t>(inst.tensor(kData0).rows());
  const auto a = transposed(ctx, ctx.load(inst.tensor(kData0)));
  const auto b = transposed(ctx, ctx.load(inst.tensor(kData1)));
  const float* previous = ctx.column(inst.arg(kInitial), inst.tensor(kData0).rows()).data;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    float* x = a.row(i);
    apply(op0, reverse0 ? previous : x, reverse0 ? x : previous, x, rows);
    apply(op1, reverse1 ? b.row(i) : x, reverse1 ? x : b.row(i), x, rows);
    previous = x;
  }
  ctx.store(inst.tensor(kDst), transposed(ctx, a));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_tensor_scan",
    .doc = "A running recurrence along the free dimension of two tiles.",
    .semantics =
        "r[p,i] = op1(op0(data0[p,i], r[p,i-1]), data1[p,i]) with r[p,-1] = initial; "
        "reverse0/reverse1 swap the sides; FP32, strictly in order; dst = r",
    .cost = "max(64, 2N)",
    .sources = "nki.isa.tensor_tensor_scan; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kTENSOR_TENSOR_SCAN,
    .check = check,
    .eval = eval,
    .undefined = OpSpec::Undefined::kIfComparing,
    .depends = OpSpec::Depends::kRow,
};

}  // namespace nkisim::isa::ops::tensor_tensor_scan
