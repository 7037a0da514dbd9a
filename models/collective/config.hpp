// Defines the config values of chips, links and collective operations of a chip generation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/rates.hpp"

namespace nkisim::models {

enum class CollectiveKind : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kPermute,  // explicit pairs, or the ring of an implicit one
  kBarrier,
};
inline constexpr int kCollectiveKinds = 6;
/// "all_reduce", as the configs write it.
[[nodiscard]] std::string_view name(CollectiveKind kind);
/// "AllReduce", as profiles do.
[[nodiscard]] std::string_view profile_name(CollectiveKind kind);

/// The ways in which data and semaphores travel.
enum class Algorithm : std::uint8_t {
  kMesh,          // everybody to everybody
  kRdh,           // recursive doubling and halving between chips
  kOnChip,        // its stage within a chip
  kKangaRing,     // a ring of every second rank, which also serves its neighbour
  kRing,          //
  kDirect,        // one transfer per pair
  kHierarchical,  // between instances, and another one within each
  kNone,
};
inline constexpr int kAlgorithms = 8;
[[nodiscard]] std::string_view name(Algorithm algorithm);          // "mesh"
[[nodiscard]] std::string_view profile_name(Algorithm algorithm);  // "Mesh"

/// The first row that matches an operation decides.
struct SelectRule {
  std::string id;
  std::uint32_t kinds = 0;                   // mask of CollectiveKind bits
  int min_chips = 0, max_chips = 0;          // of the group; 0: any
  int min_instances = 0, max_instances = 0;  // 0: any
  bool whole_chips = false;                  // only groups with all ranks of each of their chips
  std::int64_t max_bytes = 0;                // of the larger of a rank's input and output; 0: any
  Algorithm algorithm{};
  Algorithm or_else = Algorithm::kNone;  // taken where it is quicker
  /// Lower bound of the time: a larger operation takes at least as long as one of `above_bytes` by
  /// `after`. This keeps the time from falling where the algorithm changes.
  Algorithm after = Algorithm::kNone;
  std::int64_t above_bytes = 0;
};

struct CollectiveConfig : CollectiveRates {
  std::vector<AlgorithmConfig> algorithms;  // by Algorithm
  std::vector<SelectRule> select;
};

}  // namespace nkisim::models
