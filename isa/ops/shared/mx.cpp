// Checks and addresses the scales of MX (microscaling) instructions.
#include "isa/ops/shared/mx.hpp"

namespace nkisim::isa {

void check_scale(std::string_view operand, const TensorRef& scale, std::int64_t rows,
                 std::int64_t columns) {
  const std::int64_t least = (rows / kQuadrant - 1) * kQuadrant + kScaleRows;
  if (scale.rows() < least) {
    fail(Rule::partition_count, operand, describe(scale),
         "at least " + std::to_string(least) + " partitions (4 per quadrant of " +
             std::to_string(rows) + " data partitions)");
  }
  if (scale.columns() < columns) {
    fail(Rule::operand_shape, operand, describe(scale), std::to_string(columns) + " columns");
  }
}

TensorRef scale_quadrant(const TensorRef& scale, std::int64_t quadrant) {
  TensorRef rows = scale;
  rows.partition = static_cast<std::uint16_t>(scale.partition + quadrant * kQuadrant);
  rows.partitions = kScaleRows;
  return rows;
}

}  // namespace nkisim::isa
