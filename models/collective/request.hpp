// Describes a collective operation as its group of ranks requests it.
#pragma once

#include <utility>
#include <vector>

#include "isa/base/dtype.hpp"
#include "isa/base/tensor.hpp"
#include "models/collective/config.hpp"

namespace nkisim::models {

/// One operation of one group, once every rank of it has come. Positions are indices of `ranks`.
struct CollectiveRequest {
  CollectiveKind kind{};
  std::vector<int> ranks{};  // of the world, in the group's order
  std::int64_t bytes = 0;    // of a rank's sources together: what it contributes
  isa::Dtype dtype{};
  isa::Space memory = isa::Space::kHbm;  // of sources and destinations
  int stream = 0;
  int priority = 0;  // of its data: 0 goes first, 3 last
  /// The end of each rank's trigger instruction; its sources are ready and its destinations free.
  std::vector<Fs> triggered{};
  /// The end of each rank's prepare. Empty unless the operation has two parts.
  std::vector<Fs> prepared{};
  /// kPermute: (source, target) positions; of an implicit one, the ring's neighbours.
  std::vector<std::pair<int, int>> pairs{};
  /// Variable lengths (all_gather_v, all_to_all_v), used instead of `bytes`: [source][target].
  std::vector<std::vector<std::int64_t>> lengths{};
};

/// Bytes of a rank's input and output, the largest of the group.
[[nodiscard]] std::int64_t input_bytes(const CollectiveRequest& request);
[[nodiscard]] std::int64_t output_bytes(const CollectiveRequest& request);

}  // namespace nkisim::models
