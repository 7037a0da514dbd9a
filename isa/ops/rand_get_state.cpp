// rand_get_state: stores an engine's XORWOW generators, one partition per lane.
#include <algorithm>

#include "isa/ops/shared/random.hpp"

namespace nkisim::isa::ops::rand_get_state {
namespace {

enum { kDst };

constexpr std::array<EngineRule, 2> kEngines = {
    {{Engine::kGpSimd, Generation::kV3}, {Engine::kVector, Generation::kV4}}};

constexpr std::array<Param, 1> kParams = {{
    {.name = "dst",
     .kind = ParamKind::kOut,
     .spaces = kOnChip,
     .dtypes = {Dtype::kUint32},
     .doc = "6 words per partition (gpsimd) or 24 (vector)"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& dst = inst.tensor(kDst);
  const std::int64_t words = inst.engine == Engine::kGpSimd ? 6 : 24;
  if (dst.columns() != words) {
    fail(Rule::operand_size, "dst", describe(dst),
         std::to_string(words) + " elements per partition on " + std::string(name(inst.engine)));
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& dst = inst.tensor(kDst);
  CoreState& state = ctx.state();
  ensure_seeded(state, inst.engine);
  const auto out = ctx.make<std::uint32_t>(dst.rows(), dst.columns());
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const auto lane = static_cast<std::size_t>(dst.partition + r);
    std::uint32_t* w = out.row(r);
    if (inst.engine == Engine::kGpSimd) {
      std::copy_n(state.gpsimd_xorwow[lane].words.begin(), 6, w);
      continue;
    }
    for (const Xorwow& one : state.vector_xorwow[lane]) w = std::copy_n(one.words.begin(), 6, w);
  }
  ctx.store_bits(dst, out);
}

void expand_parts(const Inst& inst, const Machine& machine, Expansion& out) {
  Part part = default_part(inst, machine);
  part.dtype = Dtype::kUint32;
  out.parts.push_back(part);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "rand_get_state",
    .doc = "Stores an engine's XORWOW generators, one partition per lane.",
    .semantics = "dst[p,:] = state of lane p (four states of six words on VectorE)",
    .cost = "not documented",
    .sources = "nki.isa.rand_get_state (order of the words assumed: isa/ops/shared/random.hpp)",
    .engines = kEngines,
    .params = kParams,
    .since = Generation::kV3,
    .opcode = Opcode::kRAND_GET_STATE,
    .check = check,
    .eval = eval,
    .expand = expand_parts,
    .state = OpSpec::State::kAlways,
};

}  // namespace nkisim::isa::ops::rand_get_state
