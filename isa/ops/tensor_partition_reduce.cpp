// tensor_partition_reduce: reduces a tile across its partitions.
#include <algorithm>

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::tensor_partition_reduce {
namespace {

enum { kDst, kOp, kData };

constexpr std::array<Param, 3> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kSbufOnly, .free_dims = 4},
    {.name = "op",
     .kind = ParamKind::kAlu,
     .doc = "add, average, maximum, bitwise_or, bitwise_and, bitwise_xor"},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kSbufOnly, .free_dims = 4},
}};

AluOp op_of(const Inst& inst) { return inst.choice(kOp, AluOp::kAdd); }

bool is_word(Dtype d) { return d == Dtype::kInt32 || d == Dtype::kUint32; }

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const AluOp op = op_of(inst);
  using enum AluOp;
  if (op != kAdd && op != kAverage && op != kMaximum && op != kBitwiseOr && op != kBitwiseAnd &&
      op != kBitwiseXor) {
    fail(Rule::operator_not_taken, "op", std::string(name(op)),
         "add, average, maximum, bitwise_or, bitwise_and or bitwise_xor");
  }
  if (dst.rows() != 1 || dst.columns() != data.columns()) {
    fail(Rule::operand_shape, "dst", describe(dst),
         "1 partition with the elements per partition of data, " + describe(data) + ",");
  }
  if (!is_bitvec(op)) return;
  check_bit_operand("data", data, op);
  check_bit_operand("dst", dst, op);
}

void eval_bits(const Inst& inst, OpContext& ctx, AluOp op) {
  const auto x = ctx.load_bits(inst.tensor(kData));
  const auto out = ctx.make<std::uint32_t>(1, x.columns);
  const auto n = static_cast<std::size_t>(x.columns);
  std::copy_n(x.data, n, out.data);
  for (std::int64_t r = 1; r < x.rows; ++r) {
    if (is_bitvec(op)) {
      apply_bits(op, out.data, x.row(r), out.data, n);
    } else {
      const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
      if (data.dtype == Dtype::kInt32) ctx.watch_words(dst, op, out.data, x.row(r), n);
      apply_words(op, out.data, x.row(r), out.data, n, {});  // add: the same for all signs
    }
  }
  ctx.store_bits(inst.tensor(kDst), out);
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  const AluOp op = op_of(inst);
  const bool exact = op == AluOp::kAdd && is_word(data.dtype) && is_word(dst.dtype);
  if (exact || is_bitvec(op)) return eval_bits(inst, ctx, op);
  const auto x = ctx.load(data);
  const auto out = ctx.make<float>(1, x.columns);
  std::fill_n(out.data, out.columns, traits(op).identity);
  reduce_rows(op,
              {.data = x.data,
               .rows = static_cast<std::size_t>(x.columns),
               .columns = static_cast<std::size_t>(x.rows),
               .row_stride = 1,
               .column_stride = static_cast<std::ptrdiff_t>(x.columns)},
              out.data);
  ctx.store(dst, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_partition_reduce",
    .doc = "Reduces a tile across its partitions.",
    .semantics =
        "dst[0,i] = op over p of data[p,i]; FP32 in partition order (assumed), bits for bitvec, "
        "exact 32-bit sums for int32/uint32 (assumed)",
    .cost = "not documented",
    .sources = "nki.isa.tensor_partition_reduce (bitwise_xor: SDK 2.33)",
    .engines = kGpSimdOnly,
    .params = kParams,
    .opcode = Opcode::kTENSOR_PARTITION_REDUCE,
    .check = check,
    .eval = eval,
};

}  // namespace nkisim::isa::ops::tensor_partition_reduce
