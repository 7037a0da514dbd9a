// iota: writes an affine pattern of integers.
#include <algorithm>

#include "isa/ops/shared/affine.hpp"

namespace nkisim::isa::ops::iota {
namespace {

enum { kDst, kPattern, kOffset, kChannelMultiplier };

constexpr std::array<Param, 4> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kSbufOnly},
    {.name = "pattern",
     .kind = ParamKind::kIntList,
     .doc = "up to four [step, num] pairs, outermost first, flattened"},
    {.name = "offset", .kind = ParamKind::kInt, .optional = true},
    {.name = "channel_multiplier", .kind = ParamKind::kInt, .optional = true},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  check_affine_pattern(inst.list(kPattern), inst.tensor(kDst).columns());
  check_int32("offset", inst.integer(kOffset));
  check_int32("channel_multiplier", inst.integer(kChannelMultiplier));
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  const auto values = affine_values(ctx, inst.list(kPattern), inst.integer(kOffset),
                                    inst.integer(kChannelMultiplier), dst.rows());
  if (dst.dtype == Dtype::kInt32 || dst.dtype == Dtype::kUint32) {
    const auto bits = ctx.make<std::uint32_t>(values.rows, values.columns);
    std::copy_n(values.data, values.size(), bits.data);
    return ctx.store_bits(dst, bits);
  }
  const auto out = ctx.make<float>(values.rows, values.columns);
  for (std::int64_t i = 0; i < out.size(); ++i) out.data[i] = static_cast<float>(values.data[i]);
  ctx.store(dst, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "iota",
    .doc = "Writes an affine pattern of integers.",
    .semantics =
        "dst[p,w,z,y,x] = offset + p*channel_multiplier + w*step_w + z*step_z + y*step_y + "
        "x*step_x in wrapping int32; 32-bit integers keep the bits, other dtypes are cast through "
        "FP32 (assumed)",
    .cost = "150 + N",
    .sources = "nki.isa.iota; 2.26 cost notes",
    .engines = kGpSimdOnly,
    .params = kParams,
    .opcode = Opcode::kIOTA,
    .check = check,
    .eval = eval,
    .expand = expand_as_dst,
};

}  // namespace nkisim::isa::ops::iota
