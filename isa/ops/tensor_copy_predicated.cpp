// tensor_copy_predicated: copies the elements that a predicate selects and leaves the others.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::tensor_copy_predicated {
namespace {

enum { kDst, kSrc, kPredicate, kReversePred };

constexpr Dtypes kPredicates = {Dtype::kUint8, Dtype::kUint16, Dtype::kUint32};

constexpr std::array<Param, 4> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kInOut,
     .spaces = kOnChip,
     .doc = "keeps its value where nothing is copied",
     .indirect = true,
     .free_dims = 3},
    {.name = "src",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .doc = "constant or a tile of dst's shape and dtype",
     .free_dims = 3},
    {.name = "predicate",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = kPredicates,
     .indirect = true,
     .selects = true,
     .free_dims = 3},
    {.name = "reverse_pred", .kind = ParamKind::kBool, .optional = true},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &predicate = inst.tensor(kPredicate);
  check_same_shape("dst", dst, "predicate", predicate);
  if (inst.arg(kSrc).kind == Arg::Kind::kInt && is_integer(dst.dtype)) {
    // As bits: of either sign.
    const std::int64_t value = inst.integer(kSrc),
                       top = std::int64_t{1} << 8 * size_bytes(dst.dtype);
    if (value >= -top / 2 && value < top) return;
    fail(Rule::integer_range, "src", std::to_string(value),
         "an integer of " + std::to_string(8 * size_bytes(dst.dtype)) + " bits");
  }
  if (!inst.is_tensor(kSrc)) return;
  const TensorRef& src = inst.tensor(kSrc);
  check_same_shape("dst", dst, "src", src);
  check_not_both_psum("src", src, "predicate", predicate);
  if (src.dtype != dst.dtype) {
    fail(Rule::dtypes_differ, "src", std::string(name(src.dtype)),
         "dst's dtype, " + std::string(name(dst.dtype)) + ",");
  }
  for (const DynamicOffset* d = src.dynamic; d != nullptr; d = d->next) {
    if (d->kind == DynamicOffset::Kind::kIndirect) {
      fail(Rule::indirect_operand, "src", "an indirect view, which this operand does not support",
           "a direct operand");
    }
  }
}

// A constant as raw elements of the destination: integers exactly, others through FP32.
Tile<std::byte> constant(OpContext& ctx, const TensorRef& dst, const Arg& arg) {
  const auto size = static_cast<std::int64_t>(size_bytes(dst.dtype));
  const auto out = ctx.make<std::byte>(dst.rows(), dst.columns() * size);
  std::array<std::byte, 4> element{};
  if (is_integer(dst.dtype) && arg.kind == Arg::Kind::kInt) {
    const auto bits = static_cast<std::uint32_t>(arg.integer);
    encode_bits(dst.dtype, &bits, 1, element.data());
  } else {
    encode_one(dst.dtype, ctx.column(arg, 1).data[0], element.data());
  }
  fill_elements(out.data, element.data(), size, dst.elements());
  return out;
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  const auto predicate = ctx.load_bits(inst.tensor(kPredicate));
  const auto values =
      inst.is_tensor(kSrc) ? ctx.load_raw(inst.tensor(kSrc)) : constant(ctx, dst, inst.arg(kSrc));
  const bool reverse = inst.flag(kReversePred);
  const std::int64_t none = predicate.size();
  std::int64_t selected = none;
  const auto mask = ctx.make<std::uint8_t>(predicate.rows, predicate.columns);
  for (std::int64_t i = 0; i < mask.size(); ++i) {
    mask.data[i] = (predicate.data[i] != 0) != reverse ? 1 : 0;
    if (mask.data[i] != 0 && selected == none) selected = i;
  }
  if (selected < none && inst.arg(kSrc).kind == Arg::Kind::kReal) {
    ctx.watch(dst, ctx.column(inst.arg(kSrc), 1).data, 1, static_cast<std::size_t>(selected));
  }
  ctx.store_raw_where(dst, values, mask);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "tensor_copy_predicated",
    .doc = "Copies the elements that a predicate selects and leaves the others.",
    .semantics = "if ((predicate[p,i] != 0) xor reverse_pred) dst[p,i] = src[p,i]",
    .cost =
        "max(64, N) with one of src and predicate in PSUM, max(64, 2N) with src and dst in SBUF",
    .sources = "nki.isa.tensor_copy_predicated; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kCOPY_PREDICATED,
    .check = check,
    .eval = eval,
    .expand = expand_over_dst,
    .depends = OpSpec::Depends::kElement,
};

}  // namespace nkisim::isa::ops::tensor_copy_predicated
