// Implements stochastic rounding: a narrowing cast rounds up with a probability equal to the part
// cut off.
//
// Documented: from trn1 on the rounding mode may be chosen at run time, nearest even (default) or
// stochastic with a seed (rounding-modes.rst, nrt-developer-guide.rst), and BF16 results in trn3's
// PSUM obey it (trainium3_arch.rst). Assumed, as no document gives them: which stores obey it
// (every FP32 result that a compute engine stores as a narrower float; not DMA, integers or packed
// types), the generator (one XORWOW per engine and partition, one number per stored element in the
// operand's order) and its width (the upper 24 bits).
#pragma once

#include <cstdint>

#include "isa/machine/eval.hpp"

namespace nkisim::isa {

/// Enables stochastic rounding for a core.
void seed_rounding(CoreState& state, std::uint32_t seed, int core);
/// True if stores of `dtype` obey the rounding mode: floats narrower than float32.
[[nodiscard]] bool has_rounding_mode(Dtype dtype);
/// `value` as one of the two neighbours `dtype` has for it: away from zero if the part cut off,
/// in units of their distance, exceeds the upper 24 bits of `random` as a fraction. Values of
/// `dtype`, infinities and NaN stay; beyond the largest finite value its spacing goes on.
[[nodiscard]] float round_stochastically(Dtype dtype, float value, std::uint32_t random);

}  // namespace nkisim::isa
