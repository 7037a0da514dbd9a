// tensor_reduce: reduces the last free dimensions of a tile.
#include <algorithm>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::tensor_reduce {
namespace {

enum { kDst, kOp, kData, kAxis, kNegate, kKeepdims };

constexpr std::array<Param, 6> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .indirect = true},
    {.name = "op", .kind = ParamKind::kAlu, .doc = "an operator that can reduce"},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip, .indirect = true},
    {.name = "axis",
     .kind = ParamKind::kIntList,
     .doc = "the last free dimensions, numbered from the partition dimension 0"},
    {.name = "negate", .kind = ParamKind::kBool, .optional = true},
    {.name = "keepdims",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "shape of the result only: no effect on the data"},
}};

AluOp op_of(const Inst& inst) { return inst.choice(kOp, AluOp::kAdd); }

// Elements of each reduction: the product of the reduced dimensions.
std::int64_t reduced_elements(const Inst& inst) {
  const std::vector<std::int64_t> shape = inst.tensor(kData).shape();
  const auto reduced = inst.list(kAxis).size();
  std::int64_t product = 1;
  for (std::size_t i = 0; i < reduced; ++i) product *= shape[shape.size() - 1 - i];
  return product;
}

void check_axis(const IntList& given, const TensorRef& data) {
  const auto dims = static_cast<std::int64_t>(data.shape().size());
  IntList axis = given;
  for (std::int64_t& a : axis) {
    if (a < 0) a += dims;
  }
  std::sort(axis.begin(), axis.end());
  bool trailing = !axis.empty() && axis.front() >= 1 && axis.back() == dims - 1;
  for (std::size_t i = 1; i < axis.size(); ++i) trailing &= axis[i] == axis[i - 1] + 1;
  if (trailing) return;
  std::string text;
  for (std::int64_t a : given) text += (text.empty() ? "" : ", ") + std::to_string(a);
  fail(Rule::axes, "axis", "(" + text + ") of " + describe(data),
       "the last free dimensions, ending at " + std::to_string(dims - 1) + " and without 0");
}

void check(const Inst& inst, const Machine& machine) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const AluOp op = op_of(inst);
  if (traits(op).reduction != AluReduction::kTensor) {
    fail(Rule::operator_not_taken, "op", std::string(name(op)), "an operator that can reduce");
  }
  check_alu_engine("op", op, inst.engine, machine);
  check_same_rows("data", data, "dst", dst);
  check_axis(inst.list(kAxis), data);
  const std::int64_t results = data.columns() / std::max<std::int64_t>(reduced_elements(inst), 1);
  if (dst.columns() != results) {
    fail(Rule::operand_shape, "dst", describe(dst),
         std::to_string(results) + " elements per partition");
  }
  if (!is_bitvec(op)) return;
  check_bit_operand("data", data, op);
  check_bit_operand("dst", dst, op);
  if (inst.flag(kNegate))
    fail(Rule::argument_value, "negate", "set with " + std::string(name(op)), "false");
}

void eval_bits(const Inst& inst, OpContext& ctx, std::int64_t count) {
  const AluOp op = op_of(inst);
  const auto x = ctx.load_bits(inst.tensor(kData));
  const auto out = ctx.make<std::uint32_t>(x.rows, x.columns / count);
  for (std::int64_t i = 0; i < out.size(); ++i) {
    out.data[i] = reduce_bits(op, x.data + i * count, static_cast<std::size_t>(count),
                              traits(op).bit_identity);
  }
  ctx.store_bits(inst.tensor(kDst), out);
}

void eval(const Inst& inst, OpContext& ctx) {
  const AluOp op = op_of(inst);
  const std::int64_t count = reduced_elements(inst);
  if (is_bitvec(op)) return eval_bits(inst, ctx, count);
  const auto x = ctx.load(inst.tensor(kData));
  const auto out = ctx.make<float>(x.rows, x.columns / count);
  std::fill_n(out.data, out.size(), traits(op).identity);
  reduce_rows(op,
              {.data = x.data,
               .rows = static_cast<std::size_t>(out.size()),
               .columns = static_cast<std::size_t>(count),
               .row_stride = static_cast<std::ptrdiff_t>(count),
               .column_stride = 1},
              out.data);
  if (inst.flag(kNegate)) {
    apply_scalar(AluOp::kMultiply, out.data, -1.0F, false, out.data,
                 static_cast<std::size_t>(out.size()));
  }
  ctx.store(inst.tensor(kDst), out);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  const AluOp op = op_of(inst);
  if (op == AluOp::kAdd || op == AluOp::kMaximum) part.features |= kFeatReduceAddMax;
  // A one-column result would not count towards the data path's mode; here it is the output.
  if (inst.tensor(kDst).dtype != Dtype::kBfloat16) part.features &= ~std::uint32_t{kFeatBf16};
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_reduce",
    .doc = "Reduces the last free dimensions of a tile.",
    .semantics =
        "dst[p,j] = op over i of data[p,j,i], times -1 with negate; FP32 in order from the "
        "operator's identity (order assumed; subtract: 0 - x0 - x1 ...), bits for bitvec",
    .cost = "N/2 if input and output are bf16 and op is add or maximum, else N",
    .sources = "nki.isa.tensor_reduce; 2.26 cost notes; profiler opcode TENSOR_REDUCE",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kTENSOR_REDUCE,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .depends = OpSpec::Depends::kRow,
    .exact_shapes = true,
};

}  // namespace nkisim::isa::ops::tensor_reduce
