// rand2: uniform random numbers.
#include <algorithm>

#include "isa/ops/shared/random.hpp"

namespace nkisim::isa::ops::rand2 {
namespace {

enum { kDst, kMin, kMax };

constexpr Dtypes kDtypes = Dtypes{Dtype::kFloat32, Dtype::kTfloat32,   Dtype::kBfloat16,
                                  Dtype::kFloat16, Dtype::kFloat8E4m3, Dtype::kFloat8E5m2} |
                           (kIntegers - Dtypes{Dtype::kBool});

constexpr std::array<Param, 3> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip, .dtypes = kDtypes},
    {.name = "min",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .doc = "constant or [P,1] float32"},
    {.name = "max",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .doc = "constant or [P,1] float32"},
}};

bool is_constant(const Inst& inst, int i) { return !inst.is_tensor(i); }

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& dst = inst.tensor(kDst);
  check_scalar_operand("min", inst.arg(kMin), dst.rows());
  check_scalar_operand("max", inst.arg(kMax), dst.rows());
  if (is_constant(inst, kMin) && is_constant(inst, kMax) && !(inst.real(kMin) < inst.real(kMax))) {
    fail(Rule::argument_value, "max", std::to_string(inst.real(kMax)),
         "a value above min, " + std::to_string(inst.real(kMin)) + ",");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  const auto low = ctx.column(inst.arg(kMin), dst.rows());
  const auto high = ctx.column(inst.arg(kMax), dst.rows());
  const auto bits = ctx.make<std::uint32_t>(1, dst.columns());
  const auto out = ctx.make<float>(dst.rows(), dst.columns());
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const float a = low.data[r], b = high.data[r];
    if (!(a < b)) {
      fail(Rule::argument_value, "max of partition " + std::to_string(r), std::to_string(b),
           "a value above min, " + std::to_string(a) + ",");
    }
    random_bits(ctx, inst.engine, dst.partition + static_cast<int>(r), bits.data, bits.columns);
    for (std::int64_t i = 0; i < out.columns; ++i) {
      out.row(r)[i] = std::min(b, a + (b - a) * unit_float(bits.data[i]));
    }
  }
  ctx.store(dst, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "rand2",
    .doc = "Uniform random numbers.",
    .semantics =
        "dst[p,i] = min[p] + (max[p] - min[p]) * u in FP32, then cast; u = upper 24 bits of the "
        "next XORWOW number of lane p, times 2^-24 (assumed)",
    .cost = "not documented; up to four values per lane and cycle",
    .sources = "nki.isa.rand2; trainium3_arch",
    .engines = kVectorOnly,
    .params = kParams,
    .since = Generation::kV4,
    .opcode = Opcode::kRAND2,
    .check = check,
    .eval = eval,
    .expand = expand_as_dst,
    .state = OpSpec::State::kAlways,
};

}  // namespace nkisim::isa::ops::rand2
