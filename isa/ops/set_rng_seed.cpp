// set_rng_seed: seeds VectorE's random number generator.
#include "isa/ops/shared/random.hpp"

namespace nkisim::isa::ops::set_rng_seed {
namespace {

enum { kSrcSeeds };

constexpr std::array<Param, 1> kParams = {{
    {.name = "src_seeds",
     .kind = ParamKind::kIn,
     .spaces = kOnChip,
     .dtypes = {Dtype::kInt32, Dtype::kUint32, Dtype::kFloat32},
     .doc = "[1,1], 32 bits",
     .steers = true},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  const TensorRef& seed = inst.tensor(kSrcSeeds);
  if (seed.elements() != 1) fail(Rule::operand_size, "src_seeds", describe(seed), "one element");
}

void eval(const Inst& inst, OpContext& ctx) {
  seed_vector(ctx.state(), ctx.load_bits(inst.tensor(kSrcSeeds)).data[0]);
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "set_rng_seed",
    .doc = "Seeds VectorE's random number generator.",
    .semantics =
        "the 32 bits of src_seeds determine the generators of all lanes (how: assumed, "
        "isa/ops/shared/random.hpp)",
    .cost = "not documented",
    .sources = "nki.isa.set_rng_seed",
    .engines = kVectorOnly,
    .params = kParams,
    .opcode = Opcode::kSET_RNG_SEED,
    .check = check,
    .eval = eval,
    .state = OpSpec::State::kAlways,
};

}  // namespace nkisim::isa::ops::set_rng_seed
