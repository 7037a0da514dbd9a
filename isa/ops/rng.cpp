// rng: random bits.
#include "isa/ops/shared/random.hpp"

namespace nkisim::isa::ops::rng {
namespace {

enum { kDst };

constexpr std::array<EngineRule, 2> kEngines = {
    {{Engine::kVector}, {Engine::kGpSimd, Generation::kV3}}};

constexpr std::array<Param, 1> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = kIntegers - Dtypes{Dtype::kBool}},
}};

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  const auto out = ctx.make<std::uint32_t>(dst.rows(), dst.columns());
  for (std::int64_t r = 0; r < out.rows; ++r) {
    random_bits(ctx, inst.engine, dst.partition + static_cast<int>(r), out.row(r), out.columns);
  }
  ctx.store_bits(dst, out);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "rng",
    .doc = "Random bits.",
    .semantics =
        "dst[p,i] = the low bits of the next 32 random bits of lane p of the engine's generator "
        "(generators: isa/ops/shared/random.hpp, partly assumed)",
    .cost = "not documented",
    .sources = "nki.isa.rng; trainium3_arch",
    .engines = kEngines,
    .params = kParams,
    .opcode = Opcode::kRNG,
    .eval = eval,
    .expand = expand_as_dst,
    .state = OpSpec::State::kAlways,
};

}  // namespace nkisim::isa::ops::rng
