// affine_select: keeps elements where an affine function of their index compares with 0.
#include <cstring>

#include "isa/ops/shared/affine.hpp"

namespace nkisim::isa::ops::affine_select {
namespace {

enum { kDst, kPattern, kChannelMultiplier, kOnTrueTile, kOnFalseValue, kCmpOp, kOffset };

constexpr std::array<Param, 7> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kSbufOnly},
    {.name = "pattern",
     .kind = ParamKind::kIntList,
     .doc = "up to four [step, num] pairs, outermost first, flattened"},
    {.name = "channel_multiplier", .kind = ParamKind::kInt},
    {.name = "on_true_tile", .kind = ParamKind::kIn, .spaces = kSbufOnly},
    {.name = "on_false_value", .kind = ParamKind::kReal},
    {.name = "cmp_op",
     .kind = ParamKind::kAlu,
     .optional = true,
     .doc = "comparison with 0, default equal"},
    {.name = "offset", .kind = ParamKind::kInt, .optional = true},
}};

bool is_comparison(AluOp op) {
  using enum AluOp;
  return op == kEqual || op == kNotEqual || op == kGreater || op == kGreaterEqual || op == kLess ||
         op == kLessEqual;
}

// Calls fn with the comparison with 0 as a function, so that loops over it are compiled for each.
template <typename Fn>
void with_comparison(AluOp op, Fn&& fn) {
  switch (op) {
    case AluOp::kEqual:
      return fn([](std::int32_t a) { return a == 0; });
    case AluOp::kNotEqual:
      return fn([](std::int32_t a) { return a != 0; });
    case AluOp::kGreater:
      return fn([](std::int32_t a) { return a > 0; });
    case AluOp::kGreaterEqual:
      return fn([](std::int32_t a) { return a >= 0; });
    case AluOp::kLess:
      return fn([](std::int32_t a) { return a < 0; });
    default:
      return fn([](std::int32_t a) { return a <= 0; });
  }
}

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& dst = inst.tensor(kDst);
  check_same_shape("on_true_tile", inst.tensor(kOnTrueTile), "dst", dst);
  check_affine_pattern(inst.list(kPattern), dst.columns());
  check_int32("offset", inst.integer(kOffset));
  check_int32("channel_multiplier", inst.integer(kChannelMultiplier));
  const AluOp op = inst.choice(kCmpOp, AluOp::kEqual);
  if (!is_comparison(op))
    fail(Rule::operator_not_taken, "cmp_op", std::string(name(op)), "a comparison");
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef &dst = inst.tensor(kDst), &src = inst.tensor(kOnTrueTile);
  const AluOp op = inst.choice(kCmpOp, AluOp::kEqual);
  const auto affine = affine_values(ctx, inst.list(kPattern), inst.integer(kOffset),
                                    inst.integer(kChannelMultiplier), dst.rows());
  const auto on_false = static_cast<float>(inst.real(kOnFalseValue));
  if (src.dtype != dst.dtype) {
    const auto x = ctx.load(src);
    with_comparison(op, [&](auto comparison) {
      for (std::int64_t i = 0; i < x.size(); ++i) {
        x.data[i] = comparison(affine.data[i]) ? x.data[i] : on_false;
      }
    });
    return ctx.store(dst, x);
  }
  const auto x = ctx.load_raw(src);  // selected elements keep their bits
  const auto size = static_cast<std::size_t>(size_bytes(dst.dtype));
  std::array<std::byte, 4> fill{};
  encode_one(dst.dtype, on_false, fill.data());
  std::int64_t filled = affine.size();
  with_comparison(op, [&](auto comparison) {
    for (std::int64_t i = affine.size(); i-- > 0;) {
      if (comparison(affine.data[i])) continue;
      filled = i;
      std::memcpy(x.data + static_cast<std::size_t>(i) * size, fill.data(), size);
    }
  });
  if (filled < affine.size()) ctx.watch(dst, &on_false, 1, static_cast<std::size_t>(filled));
  ctx.store_raw(dst, x);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "affine_select",
    .doc = "Keeps elements where an affine function of their index compares with 0.",
    .semantics =
        "a = offset + p*channel_multiplier + w*step_w + z*step_z + y*step_y + x*step_x in wrapping "
        "int32; dst = cmp_op(a, 0) ? on_true_tile : on_false_value; same dtypes keep bits, others "
        "go through FP32",
    .cost = "150 + N",
    .sources = "nki.isa.affine_select; 2.26 cost notes (all six comparisons: assumed)",
    .engines = kGpSimdOnly,
    .params = kParams,
    .opcode = Opcode::kAFFINE_SELECT,
    .check = check,
    .eval = eval,
    .depends = OpSpec::Depends::kElement,
};

}  // namespace nkisim::isa::ops::affine_select
