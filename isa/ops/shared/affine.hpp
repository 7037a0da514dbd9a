// Checks and evaluates the affine index patterns of iota and affine_select.
#pragma once

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa {

/// Rules of a `pattern` argument: up to four (step, num) pairs, flattened, outermost first, whose
/// nums multiply to `elements`.
void check_affine_pattern(const IntList& pattern, std::int64_t elements);

/// out[r, i] = offset + r * channel_multiplier + the pattern's value at i, in 32-bit arithmetic.
[[nodiscard]] Tile<std::int32_t> affine_values(OpContext& ctx, const IntList& pattern,
                                               std::int64_t offset, std::int64_t channel_multiplier,
                                               std::int64_t rows);

/// Fails unless an integer argument fits in 32 bits.
void check_int32(std::string_view param, std::int64_t value);

}  // namespace nkisim::isa
