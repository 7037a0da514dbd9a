// Declares the code that nc_find_index8 and nc_match_replace8 share: both search each partition for
// eight values.
#pragma once

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa {

/// `data` has 8 (or 1, see `least`) to 16384 elements per partition, `vals` 8, on the same rows.
void check_match8(const TensorRef& data, const TensorRef& vals, std::int64_t least);

/// positions[k] = first index in data[0..n) equal to vals[k] that no earlier k took, or -1. Slots
/// are served 0..7, or 7..0 with `descending`.
void match8(const float* data, std::int64_t n, const float* vals, bool descending,
            std::int64_t* positions);

/// The two parts of both instructions: loading the values, then the search.
void expand_match8(const Inst& inst, const Machine& machine, int vals_param, Expansion& out);

}  // namespace nkisim::isa
