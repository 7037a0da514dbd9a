// reciprocal: element-wise 1/x.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::reciprocal {
namespace {

enum { kDst, kData };

constexpr std::array<Param, 2> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .free_dims = 4},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip, .free_dims = 4},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  check_same_shape("data", inst.tensor(kData), "dst", inst.tensor(kDst));
}

void eval(const Inst& inst, OpContext& ctx) {
  ctx.map_rows({&inst.tensor(kData)}, inst.tensor(kDst),
               [](std::int64_t, const float* const* in, float* out, std::size_t n) {
                 apply_unary(AluOp::kReciprocal, in[0], out, n);
               });
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "reciprocal",
    .doc = "Element-wise 1/x.",
    .semantics = "dst[p,i] = 1 / data[p,i] in FP32, correctly rounded (accuracy assumed)",
    .cost = "max(64, 8N)",
    .sources = "nki.isa.reciprocal; 2.26 cost notes; profiler opcode RECIPROCAL",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kRECIPROCAL,
    .check = check,
    .eval = eval,
    .depends = OpSpec::Depends::kElement,
};

}  // namespace nkisim::isa::ops::reciprocal
