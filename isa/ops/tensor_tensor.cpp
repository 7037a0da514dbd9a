// tensor_tensor: element-wise binary operation on two tiles.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::tensor_tensor {
namespace {

enum { kDst, kData1, kData2, kOp };

constexpr std::array<Param, 4> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .indirect = true},
    {.name = "data1", .kind = ParamKind::kIn, .spaces = kOnChip, .indirect = true},
    {.name = "data2", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "op", .kind = ParamKind::kAlu, .doc = "binary ALU operator"},
}};

AluOp op_of(const Inst& inst) { return inst.choice(kOp, AluOp::kAdd); }

bool is_word(Dtype d) { return d == Dtype::kInt32 || d == Dtype::kUint32; }

// 32-bit integers are exact only on GpSimd, which cannot reach PSUM: all operands of 32 bits are
// its by default (documented). Power exists only there.
Engine pick_engine(const Inst& inst, const Machine& /*machine*/) {
  bool psum = false, words = true;
  for (int i : {kDst, kData1, kData2}) {
    if (!inst.is_tensor(i)) continue;
    psum |= inst.tensor(i).space == Space::kPsum;
    words &= is_word(inst.tensor(i).dtype);
  }
  if (inst.arg(kOp).kind != Arg::Kind::kEnum) return Engine::kVector;
  if (inst.integer(kOp) == static_cast<std::int64_t>(AluOp::kPower)) return Engine::kGpSimd;
  return words && !psum && has_words(op_of(inst)) ? Engine::kGpSimd : Engine::kVector;
}

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &a = inst.tensor(kData1), &b = inst.tensor(kData2);
  const AluOp op = op_of(inst);
  check_same_shape("data1", a, "data2", b);
  check_same_shape("data1", a, "dst", dst);
  check_not_both_psum("data1", a, "data2", b);
  if (traits(op).operands != 2)
    fail(Rule::operator_not_taken, "op", std::string(name(op)), "a binary operator");
  check_alu_engine("op", op, inst.engine, machine);
  if (op == AluOp::kPower && inst.engine != Engine::kGpSimd) {
    fail(Rule::operator_engine, "engine", std::string(name(inst.engine)), "gpsimd for power");
  }
  if (!is_bitvec(op)) return;
  check_bit_operand("data1", a, op);
  check_bit_operand("data2", b, op);
  check_bit_operand("dst", dst, op);
}

void eval_bits(const Inst& inst, OpContext& ctx, AluOp op) {
  const TensorRef& a = inst.tensor(kData1);
  const auto x = ctx.load_bits(a), y = ctx.load_bits(inst.tensor(kData2));
  const auto n = static_cast<std::size_t>(x.size());
  if (is_bitvec(op)) {
    extend_for(op, a.dtype, x);
    apply_bits(op, x.data, y.data, x.data, n);
  } else {
    const WordSigns signs{a.dtype == Dtype::kInt32, inst.tensor(kData2).dtype == Dtype::kInt32};
    if (signs.a && signs.b) ctx.watch_words(inst.tensor(kDst), op, x.data, y.data, n);
    apply_words(op, x.data, y.data, x.data, n, signs);
  }
  ctx.store_bits(inst.tensor(kDst), x);
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef &dst = inst.tensor(kDst), &a = inst.tensor(kData1), &b = inst.tensor(kData2);
  const AluOp op = op_of(inst);
  const bool exact = inst.engine == Engine::kGpSimd && is_word(a.dtype) && is_word(b.dtype) &&
                     is_word(dst.dtype) && has_words(op);
  if (is_bitvec(op) || exact) return eval_bits(inst, ctx, op);
  ctx.map_rows({&a, &b}, dst,
               [op](std::int64_t, const float* const* in, float* out, std::size_t n) {
                 apply(op, in[0], in[1], out, n);
               });
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  if (has_exact_integer(op_of(inst))) part.features |= kFeatAddMulSub;
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_tensor",
    .doc = "Element-wise binary operation on two tiles.",
    .semantics =
        "dst[p,i] = op(data1[p,i], data2[p,i]), in FP32; integer bits within the element's width "
        "for bitvec operators; exact 32-bit integers on GpSimd when every operand is int32 or "
        "uint32, for arithmetic (add, subtract and multiply wrap), comparisons and logic",
    .cost =
        "VectorE: max(64, N) with one input in PSUM or all bf16 add/multiply/subtract, else "
        "max(64, 2N); trn2 and later: twice as fast with SBUF inputs and 16-bit operands",
    .sources = "nki.isa.tensor_tensor; 2.26 cost notes; trainium2_arch performance modes",
    .engines = kVectorOrGpSimd,
    .params = kParams,
    .opcode = Opcode::kTENSOR_TENSOR,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .undefined = OpSpec::Undefined::kIfComparing,
    .depends = OpSpec::Depends::kElement,
    .pick_engine = pick_engine,
};

}  // namespace nkisim::isa::ops::tensor_tensor
