// What a generation's configs say of chips, links and collective operations, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/time.hpp"

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

/// How data and semaphores travel.
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

/// How the chips of an instance are wired.
enum class Wiring : std::uint8_t { kTorus, kChain, kSwitch };

/// Cores, stacks, chips and what joins them. Rates are of one direction.
struct TopologyConfig {
  int cores_per_chip = 0, cores_per_die = 0, cores_per_stack = 0;
  int rows = 0, columns = 0;  // chips of an instance; a ring is a torus of one row
  Wiring wiring{};
  double link_bytes_per_ns = 0;         // to one neighbour; with a switch, of a chip's port
  int instances_per_server = 1;         // joined by links: an UltraServer
  double server_link_bytes_per_ns = 0;  // to the same chip of the next instance; 0: as the switch
  double network_bytes_per_ns = 0;      // of one chip, between servers
  int cc_cores_per_core = 0, streams = 0;
};

/// One way to do an operation: base + steps * step, then bytes by the servers' rates times `share`.
struct AlgorithmConfig {
  Fs base = 0;
  Fs step = 0;
  Fs peer = 0;                                // a mesh's, for each other chip
  double gather_share = 1, reduce_share = 1;  // of the rate of the server that bounds it
};

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
  /// What smaller operations take, up to `above_bytes`: a larger one takes no less time than one of
  /// so many bytes, which keeps the time from falling where the algorithm changes.
  Algorithm after = Algorithm::kNone;
  std::int64_t above_bytes = 0;
};

struct CollectiveConfig {
  Fs trigger_delay = 0;  // trigger instruction's end to the operation's start
  Fs handshake = 0;      // every rank's buffers are known to be free
  /// Of the handshake, done beside the stream's previous operation by one triggered during it.
  double handshake_overlap = 0;
  /// Of a rank and a part of an operation: up to so many move as descriptors on the rank's DMA
  /// rings.
  std::int64_t ring_bytes = 0;
  Fs instruction = 0;   // of a CC-core
  Fs network_step = 0;  // of a step between servers, instead of the algorithm's
  Fs barrier = 0;       // an operation without data, after the last rank
  Fs across_dies = 0;   // further latency of a direct transfer to another die
  double pair_bytes_per_ns = 0, pair_across_dies_bytes_per_ns = 0;  // of a direct transfer
  std::vector<AlgorithmConfig> algorithms;                          // by Algorithm
  std::vector<SelectRule> select;
};

}  // namespace nkisim::models
