// dropout: replaces elements with zero at random.
#include <cstring>

#include "isa/ops/shared/random.hpp"

namespace nkisim::isa::ops::dropout {
namespace {

enum { kDst, kData, kProb };

constexpr std::array<Param, 3> kParams = {{
    {.name = "dst", .kind = ParamKind::kOut, .spaces = kOnChip},
    {.name = "data", .kind = ParamKind::kIn, .spaces = kOnChip},
    {.name = "prob",
     .kind = ParamKind::kScalarOrTensor,
     .spaces = kOnChip,
     .doc = "drop probability: constant or [P,1]; float32 for integer data"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef &dst = inst.tensor(kDst), &data = inst.tensor(kData);
  check_same_shape("data", data, "dst", dst);
  if (dst.dtype != data.dtype) {
    fail(Rule::dtypes_differ, "dst", std::string(name(dst.dtype)),
         "data's dtype, " + std::string(name(data.dtype)) + ",");
  }
  check_column("prob", inst.arg(kProb), data.rows());
  if (!inst.is_tensor(kProb)) {
    const double prob = inst.real(kProb);
    if (!(prob >= 0 && prob <= 1)) {
      fail(Rule::argument_value, "prob", std::to_string(prob), "a probability of 0 to 1");
    }
    return;
  }
  if (is_integer(data.dtype)) {
    check_dtype("prob", inst.tensor(kProb), {Dtype::kFloat32}, "float32 for integer data");
  } else {
    check_dtype("prob", inst.tensor(kProb), kFloats, "a float dtype");
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& data = inst.tensor(kData);
  const auto x = ctx.load_raw(data);
  const auto prob = ctx.column(inst.arg(kProb), x.rows);
  const auto bits = ctx.make<std::uint32_t>(1, data.columns());
  const auto size = static_cast<std::size_t>(size_bytes(data.dtype));
  for (std::int64_t r = 0; r < x.rows; ++r) {
    random_bits(ctx, inst.engine, data.partition + static_cast<int>(r), bits.data, bits.columns);
    for (std::int64_t i = 0; i < bits.columns; ++i) {
      if (unit_float(bits.data[i]) >= prob.data[r]) continue;
      std::memset(x.row(r) + static_cast<std::size_t>(i) * size, 0, size);
    }
  }
  ctx.store_raw(inst.tensor(kDst), x);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "dropout",
    .doc = "Replaces elements with zero at random.",
    .semantics =
        "dst[p,i] = u < prob[p] ? 0 : data[p,i], u uniform in [0, 1) from VectorE's generator "
        "(source and comparison assumed)",
    .cost = "max(64, N)",
    .sources = "nki.isa.dropout; 2.26 cost notes",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kDROPOUT,
    .check = check,
    .eval = eval,
    .state = OpSpec::State::kAlways,
};

}  // namespace nkisim::isa::ops::dropout
