// tensor_scalar: one or two operators between a tile and constants or one value per partition.
#include <algorithm>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::tensor_scalar {
namespace {

enum { kDst, kData, kOp0, kOperand0, kReverse0, kOp1, kOperand1, kReverse1 };

constexpr std::array<EngineRule, 3> kEngines = {
    {{Engine::kVector}, {Engine::kScalar}, {Engine::kGpSimd}}};

constexpr std::array<Param, 8> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .indirect = true},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip, .indirect = true},
    {.name = "op0", .kind = ParamKind::kAlu},
    {.name = "operand0",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .optional = true,
     .doc = "constant or [P,1] float32; integers for bitvec; none or 0 for a unary op0"},
    {.name = "reverse0", .kind = ParamKind::kBool, .optional = true, .doc = "op0(operand0, data)"},
    {.name = "op1", .kind = ParamKind::kAlu, .optional = true},
    {.name = "operand1", .kind = ParamKind::kScalarOrTensor, .spaces = kOnChip, .optional = true},
    {.name = "reverse1",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "op1(operand1, result of op0)"},
}};

AluOp op0_of(const Inst& inst) { return inst.choice(kOp0, AluOp::kAdd); }
AluOp op1_of(const Inst& inst) { return inst.choice(kOp1, AluOp::kBypass); }

bool is_word(const TensorRef& ref) {
  return ref.dtype == Dtype::kInt32 || ref.dtype == Dtype::kUint32;
}

bool is_arg(const Inst& inst, int i, AluOp op) {
  return inst.arg(i).kind == Arg::Kind::kEnum && inst.integer(i) == static_cast<std::int64_t>(op);
}

// The 32-bit address-arithmetic form: integer data with integer pointers.
bool is_address_form(const Inst& inst) {
  bool pointer = false;
  for (int i : {kOperand0, kOperand1}) {
    if (inst.is_tensor(i)) {
      if (!is_word(inst.tensor(i))) return false;
      pointer = true;
    } else if (inst.has(i) && inst.arg(i).kind != Arg::Kind::kInt) {
      return false;
    }
  }
  return pointer && is_word(inst.tensor(kDst)) && is_word(inst.tensor(kData)) &&
         has_exact_integer(op0_of(inst)) && (!inst.has(kOp1) || has_exact_integer(op1_of(inst)));
}

// rsqrt does not exist on VectorE; GpSimd is the more precise of the two that have it.
Engine pick_engine(const Inst& inst, const Machine& /*machine*/) {
  if (!is_arg(inst, kOp0, AluOp::kRsqrt) && !is_arg(inst, kOp1, AluOp::kRsqrt)) {
    return Engine::kVector;
  }
  for (int i : {kDst, kData, kOperand0, kOperand1}) {
    if (inst.is_tensor(i) && inst.tensor(i).space == Space::kPsum) return Engine::kScalar;
  }
  return Engine::kGpSimd;
}

// Limits ScalarE's tensor_scalar: one unary operator on any generation; on trn2 also multiply, add
// and multiply+add; on trn3 any arithmetic.
void check_scalar_engine(const Inst& inst, const Machine& machine) {
  const AluOp op0 = op0_of(inst), op1 = op1_of(inst);
  const bool one = !inst.has(kOp1);
  using enum AluOp;
  if (one && (op0 == kAbs || op0 == kRsqrt || op0 == kReciprocal)) return;
  if (machine.generation >= Generation::kV4) return;
  const bool fits = (op0 == kMultiply && (one || op1 == kAdd)) || (op0 == kAdd && one);
  if (machine.generation == Generation::kV3 && fits) return;
  fail(Rule::operator_engine, "engine",
       "scalar for " + std::string(name(op0)) + (one ? "" : "+" + std::string(name(op1))) + " on " +
           std::string(machine.target),
       machine.generation == Generation::kV3
           ? "multiply, add, multiply+add or a unary operator there, or the vector engine"
           : "a unary operator there, or the vector engine");
}

void check_engine_choice(const Inst& inst, const Machine& machine) {
  const AluOp op0 = op0_of(inst), op1 = op1_of(inst);
  check_alu_engine("op0", op0, inst.engine, machine);
  if (inst.has(kOp1)) check_alu_engine("op1", op1, inst.engine, machine);
  if (inst.engine == Engine::kScalar) check_scalar_engine(inst, machine);
  if (inst.engine == Engine::kGpSimd && op0 != AluOp::kRsqrt && op1 != AluOp::kRsqrt) {
    fail(Rule::operator_engine, "engine", "gpsimd for " + std::string(name(op0)),
         "gpsimd only with rsqrt");
  }
}

void check_bitvec(const Inst& inst) {
  const AluOp op = op0_of(inst);
  check_bit_operand("data", inst.tensor(kData), op);
  check_bit_operand("dst", inst.tensor(kDst), op);
  for (int i : {kOperand0, kOperand1}) {
    const std::string_view operand = kParams[static_cast<std::size_t>(i)].name;
    check_column(operand, inst.arg(i), inst.tensor(kData).rows());
    if (inst.is_tensor(i)) check_bit_operand(operand, inst.tensor(i), op);
    if (inst.arg(i).kind == Arg::Kind::kReal && inst.real(i) != 0.0) {
      fail(Rule::integer_operand, operand, "a real number",
           "an integer for " + std::string(name(op)));
    }
  }
}

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const AluOp op0 = op0_of(inst), op1 = op1_of(inst);
  check_same_shape("data", data, "dst", dst);
  check_stage_operand("op0", op0, "operand0", inst.arg(kOperand0));
  if (inst.has(kOp1)) {
    check_stage_operand("op1", op1, "operand1", inst.arg(kOperand1));
    if (is_bitvec(op0) != is_bitvec(op1)) {
      fail(Rule::operators_mixed,
           "op0=" + std::string(name(op0)) + " and op1=" + std::string(name(op1)) +
               " mix bitvec and arithmetic; two operators of one kind are required");
    }
  } else if (inst.has(kOperand1)) {
    fail(Rule::argument_left_over, "operand1", "given without op1", "none");
  }
  check_engine_choice(inst, machine);
  if (is_bitvec(op0)) return check_bitvec(inst);
  if (is_address_form(inst)) {
    if (data.dynamic != nullptr || dst.dynamic != nullptr) {
      for (const TensorRef* ref : {&data, &dst}) {
        for (const DynamicOffset* d = ref->dynamic; d != nullptr; d = d->next) {
          if (d->kind == DynamicOffset::Kind::kIndirect) {
            fail(Rule::integers_indirect,
                 "an indirect view with 32-bit integer operands is not supported; float32 "
                 "operands are required");
          }
        }
      }
    }
    check_column("operand0", inst.arg(kOperand0), data.rows());
    return check_column("operand1", inst.arg(kOperand1), data.rows());
  }
  check_scalar_operand("operand0", inst.arg(kOperand0), data.rows());
  check_scalar_operand("operand1", inst.arg(kOperand1), data.rows());
}

// One stage on bit patterns; `exact` selects 32-bit integer arithmetic.
void apply_bit_stage(const Inst& inst, OpContext& ctx, AluOp op, const Arg& operand, bool reverse,
                     const Tile<std::uint32_t>& x, bool exact) {
  const Dtype dtype = inst.tensor(kData).dtype;
  const Tile<std::uint32_t> column = ctx.column_bits(operand, x.rows);
  const Tile<std::uint32_t> shared = ctx.make<std::uint32_t>(1, x.columns);
  const auto n = static_cast<std::size_t>(x.columns);
  if (operand.kind == Arg::Kind::kTensor) extend_for(op, operand.tensor->dtype, column);
  extend_for(op, dtype, x);
  const bool is_signed = dtype == Dtype::kInt32 && (operand.kind != Arg::Kind::kTensor ||
                                                    operand.tensor->dtype == Dtype::kInt32);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    if (!exact) {
      apply_bits_scalar(op, x.row(r), column.data[r], reverse, x.row(r), n);
      continue;
    }
    std::fill_n(shared.data, n, column.data[r]);
    const std::uint32_t* a = reverse ? shared.data : x.row(r);
    const std::uint32_t* b = reverse ? x.row(r) : shared.data;
    if (is_signed) ctx.watch_words(inst.tensor(kDst), op, a, b, n, static_cast<std::size_t>(r) * n);
    // add, subtract and multiply: signs are all one to the low 32 bits
    apply_words(op, a, b, x.row(r), n, {});
  }
}

// The first stage's result as an element of `dtype`: nothing beyond its width reaches the second.
void keep_width(Dtype dtype, const Tile<std::uint32_t>& x) {
  constexpr Dtypes kSigned = {Dtype::kInt8, Dtype::kInt16};
  kSigned.contains(dtype) ? extend_sign(dtype, x) : extend_zeros(dtype, x);
}

void eval_bits(const Inst& inst, OpContext& ctx, bool exact) {
  const Dtype dtype = inst.tensor(kData).dtype;
  const auto x = ctx.load_bits(inst.tensor(kData));
  apply_bit_stage(inst, ctx, op0_of(inst), inst.arg(kOperand0), inst.flag(kReverse0), x, exact);
  if (inst.has(kOp1)) {
    keep_width(dtype, x);
    apply_bit_stage(inst, ctx, op1_of(inst), inst.arg(kOperand1), inst.flag(kReverse1), x, exact);
  }
  ctx.store_bits(inst.tensor(kDst), x);
}

void eval(const Inst& inst, OpContext& ctx) {
  const bool exact = is_address_form(inst);
  if (exact || is_bitvec(op0_of(inst))) return eval_bits(inst, ctx, exact);
  const std::int64_t rows = inst.tensor(kData).rows();
  const Stage first(ctx, op0_of(inst), inst.arg(kOperand0), inst.flag(kReverse0), rows);
  const Stage second(ctx, op1_of(inst), inst.arg(kOperand1), inst.flag(kReverse1), rows);
  const bool two = inst.has(kOp1);
  ctx.map_rows({&inst.tensor(kData)}, inst.tensor(kDst),
               [&](std::int64_t r, const float* const* in, float* out, std::size_t n) {
                 first.apply_to(r, in[0], out, n);
                 if (two) second.apply_to(r, out, out, n);
               });
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_scalar",
    .doc = "One or two operators between a tile and constants or one value per partition.",
    .semantics =
        "dst[p,i] = op1(op0(data[p,i], operand0[p]), operand1[p]), reverse0/reverse1 swapping the "
        "sides; FP32, or bits within the element's width for bitvec operators; exact 32-bit "
        "integers for add, subtract, multiply of int32/uint32 tiles with int32/uint32 operand "
        "tiles (assumed); power on VectorE (assumed: the operator table has it, GpSimd takes only "
        "rsqrt here)",
    .cost =
        "max(64, N), one or two operators alike; trn2 VectorE: N/4 with SBUF, 16-bit and "
        "contiguous operands, N/2 with one of these missing",
    .sources = "nki.isa.tensor_scalar; 2.26 operator table; trainium2_arch performance modes",
    .engines = kEngines,
    .params = kParams,
    .opcode = Opcode::kTENSOR_SCALAR,
    .check = check,
    .eval = eval,
    .undefined = OpSpec::Undefined::kIfComparing,
    .depends = OpSpec::Depends::kElement,
    .pick_engine = pick_engine,
};

}  // namespace nkisim::isa::ops::tensor_scalar
