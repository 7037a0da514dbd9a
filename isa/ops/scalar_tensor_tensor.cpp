#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::scalar_tensor_tensor {
namespace {

enum { kDst, kData, kOp0, kOperand0, kOp1, kOperand1, kReverse0, kReverse1 };

constexpr std::array<Param, 8> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "op0", .kind = ParamKind::kAlu},
    {.name = "operand0", .kind = ParamKind::kScalarOrTensor, .spaces = kOnChip, .optional = true},
    {.name = "op1", .kind = ParamKind::kAlu},
    {.name = "operand1", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "reverse0", .kind = ParamKind::kBool, .optional = true},
    {.name = "reverse1", .kind = ParamKind::kBool, .optional = true},
}};

AluOp op0_of(const Inst& inst) { return inst.choice(kOp0, AluOp::kAdd); }
AluOp op1_of(const Inst& inst) { return inst.choice(kOp1, AluOp::kAdd); }

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const TensorRef& operand1 = inst.tensor(kOperand1);
  check_same_shape("data", data, "operand1", operand1);
  check_same_shape("data", data, "dst", dst);
  check_not_both_psum("data", data, "operand1", operand1);
  const AluOp op0 = op0_of(inst);
  if (is_bitvec(op0))
    fail(Rule::operator_not_taken, "op0", std::string(name(op0)), "an arithmetic operator");
  check_alu_engine("op0", op0, inst.engine, machine);
  check_stage_operand("op0", op0, "operand0", inst.arg(kOperand0));
  check_arithmetic("op1", op1_of(inst), inst.engine, machine);
  check_column("operand0", inst.arg(kOperand0), data.rows());
}

void eval(const Inst& inst, EvalContext& ctx) {
  const TensorRef& data = inst.tensor(kData);
  const Stage first(ctx, op0_of(inst), inst.arg(kOperand0), inst.flag(kReverse0), data.rows());
  const AluOp op1 = op1_of(inst);
  const bool reverse = inst.flag(kReverse1);
  const auto t = ctx.make<float>(1, data.columns());  // dst may be operand1
  ctx.map_rows({&data, &inst.tensor(kOperand1)}, inst.tensor(kDst),
               [&](std::int64_t r, const float* const* in, float* out, std::size_t n) {
                 first.apply_to(r, in[0], t.data, n);
                 apply(op1, reverse ? in[1] : t.data, reverse ? t.data : in[1], out, n);
               });
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  if (op0_of(inst) == AluOp::kSubtract && op1_of(inst) == AluOp::kMultiply) {
    part.features |= kFeatSubMul;
  }
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "scalar_tensor_tensor",
    .doc = "A scalar operation and then an element-wise one, in one pass.",
    .semantics =
        "dst[p,i] = op1(op0(data[p,i], operand0[p]), operand1[p,i]), reverse0/reverse1 swapping "
        "the sides; FP32, arithmetic operators only",
    .cost = "N if data and operand1 are bf16, op0 subtract, op1 multiply and N even; else 2N",
    .sources = "nki.isa.scalar_tensor_tensor; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kSCALAR_TENSOR_TENSOR,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .undefined = OpSpec::Undefined::kIfComparing,
    .depends = OpSpec::Depends::kElement,
};

}  // namespace nkisim::isa::ops::scalar_tensor_tensor
