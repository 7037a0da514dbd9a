// Implements the engines' pseudo random number generators.
//
// Documented: VectorE has an LFSR before trn3 and four XORWOW states of six words per lane from
// then on; GpSimd has one XORWOW state per lane. Assumed, as no document gives them: the LFSR's
// polynomial (x^32 + x^22 + x^2 + x + 1, Galois form, 32 steps per number), how one seed spreads
// over lanes (SplitMix64 of seed and lane), the order of XORWOW's words (x, y, z, w, v, d), that
// element i of a row comes from state i mod 4, and that a lane is a partition.
#pragma once

#include "isa/base/xorwow.hpp"
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa {

[[nodiscard]] std::uint32_t next_lfsr(std::uint32_t& state);
/// Fills both VectorE generators of every lane from one number.
void seed_vector(CoreState& state, std::uint32_t seed);
/// `count` numbers of `lane` of an engine's generator; seeds it with 0 if nothing else did.
void random_bits(OpContext& ctx, Engine engine, int lane, std::uint32_t* out, std::int64_t count);
/// Makes sure the generator has a state: seed 0 where the program set none.
void ensure_seeded(CoreState& state, Engine engine);

}  // namespace nkisim::isa
