// Checks and addresses the scales of MX (microscaling) instructions. One scale serves a block of 8
// partitions x 4 values.
#pragma once

#include "isa/ops/shared/common.hpp"

namespace nkisim::isa {

inline constexpr Dtypes kScaleDtypes = {Dtype::kFloat8E8m0fnu, Dtype::kUint8};

/// A scale tile holds four rows per quadrant of its data: `rows` data partitions need at least
/// (rows / 32 - 1) * 32 + 4 partitions, and `columns` columns or more. What is beyond is not used:
/// the instruction holds where the scales begin alone (nki.isa.nc_matmul_mx, profiler syntax).
void check_scale(std::string_view operand, const TensorRef& scale, std::int64_t rows,
                 std::int64_t columns);
/// The four rows of a scale tile that belong to one quadrant of the data.
[[nodiscard]] TensorRef scale_quadrant(const TensorRef& scale, std::int64_t quadrant);

}  // namespace nkisim::isa
