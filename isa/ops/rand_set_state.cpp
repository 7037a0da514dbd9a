// rand_set_state: sets an engine's XORWOW generators, one partition per lane.
#include <algorithm>

#include "isa/ops/shared/random.hpp"

namespace nkisim::isa::ops::rand_set_state {
namespace {

enum { kSrcSeeds };

constexpr std::array<EngineRule, 2> kEngines = {
    {{Engine::kGpSimd, Generation::kV3}, {Engine::kVector, Generation::kV4}}};

constexpr std::array<Param, 1> kParams = {{
    {.name = "src_seeds",
     .kind = ParamKind::kIn,
     .spaces = kSbufOnly,
     .dtypes = {Dtype::kUint32},
     .doc = "6 words per partition (gpsimd) or 24 (vector)",
     .steers = true},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& seeds = inst.tensor(kSrcSeeds);
  const std::int64_t words = inst.engine == Engine::kGpSimd ? 6 : 24;
  if (seeds.columns() != words) {
    fail(Rule::operand_size, "src_seeds", describe(seeds),
         std::to_string(words) + " elements per partition on " + std::string(name(inst.engine)));
  }
}

void eval(const Inst& inst, OpContext& ctx) {
  const TensorRef& seeds = inst.tensor(kSrcSeeds);
  const auto words = ctx.load_bits(seeds);
  CoreState& state = ctx.state();
  ensure_seeded(state, inst.engine);
  for (std::int64_t r = 0; r < words.rows; ++r) {
    const auto lane = static_cast<std::size_t>(seeds.partition + r);
    const std::uint32_t* w = words.row(r);
    if (inst.engine == Engine::kGpSimd) {
      std::copy_n(w, 6, state.gpsimd_xorwow[lane].words.begin());
      continue;
    }
    for (Xorwow& one : state.vector_xorwow[lane]) {
      std::copy_n(w, 6, one.words.begin());
      w += 6;
    }
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "rand_set_state",
    .doc = "Sets an engine's XORWOW generators, one partition per lane.",
    .semantics = "state of lane p = src_seeds[p,:] (four states of six words on VectorE)",
    .cost = "not documented",
    .sources = "nki.isa.rand_set_state (order of the words assumed: isa/ops/shared/random.hpp)",
    .engines = kEngines,
    .params = kParams,
    .since = Generation::kV3,
    .opcode = Opcode::kRAND_SET_STATE,
    .check = check,
    .eval = eval,
    .state = OpSpec::State::kAlways,
};

}  // namespace nkisim::isa::ops::rand_set_state
