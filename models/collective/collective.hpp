// When a collective operation of several ranks starts and ends on each of them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "isa/dtype.hpp"
#include "isa/tensor.hpp"
#include "models/collective/servers.hpp"
#include "models/config.hpp"

namespace nkisim::models {

struct GroupShape;

/// One operation of one group, once every rank of it has come. Positions are indices of `ranks`.
struct CollectiveRequest {
  CollectiveKind kind{};
  std::vector<int> ranks{};  // of the world, in the group's order
  std::int64_t bytes = 0;    // of a rank's sources together: what it contributes
  isa::Dtype dtype{};
  isa::Space memory = isa::Space::kHbm;  // of sources and destinations
  int stream = 0;
  /// When each rank's trigger instruction ended; its sources are ready and its destinations free.
  std::vector<Fs> triggered{};
  /// kPermute: (source, target) positions; of an implicit one, the ring's neighbours.
  std::vector<std::pair<int, int>> pairs{};
  /// Of variable lengths (all_gather_v, all_to_all_v), instead of `bytes`: [source][target].
  std::vector<std::vector<std::int64_t>> lengths{};
};

/// What a rank is doing in an operation.
enum class CollectivePhase : std::uint8_t {
  kWaiting,    // for the last of the ranks whose data it needs
  kHandshake,  // buffers are announced as free
  kStep,       // latency of steps: semaphores between CC-cores
  kData,       // bytes move
};

struct PhaseTime {
  CollectivePhase phase{};
  Fs start = 0, end = 0;
};

/// An operation as one rank sees it. Its duration, end - start, contains waiting for later ranks.
struct RankTiming {
  Fs triggered = 0;
  Fs start = 0;  // on its CC-core: trigger delay, and the stream's previous operation, are over
  Fs ready = 0;  // the last rank that it needs has started
  Fs end = 0;
  int waited_for = -1;              // world rank of that one; -1: this rank was the last itself
  std::vector<PhaseTime> phases{};  // without gaps from start to end
};

struct CollectiveTiming {
  Algorithm algorithm{};
  int steps = 0;
  std::int64_t input_bytes = 0, output_bytes = 0;  // of one rank, the largest
  std::vector<RankTiming> ranks{};                 // by position
  std::vector<ServerLoad> loads{};
};

/// The links, stacks and streams of a world of ranks. Operations of a stream keep their order on
/// each rank; those of different streams share the servers.
class Collectives {
 public:
  Collectives(const Config& config, int lnc, int ranks);
  ~Collectives();
  /// The answer is final when it is given: an operation has what those before it left of the
  /// servers. So operations should be given in the order in which they can start.
  CollectiveTiming run(const CollectiveRequest& request);
  /// The same without a world: nothing is remembered, streams are free.
  [[nodiscard]] CollectiveTiming alone(const CollectiveRequest& request) const;
  [[nodiscard]] const Topology& topology() const { return topology_; }
  /// The algorithm that the config chooses.
  [[nodiscard]] Algorithm select(const CollectiveRequest& request) const;

 private:
  struct Plan;
  [[nodiscard]] Algorithm select(CollectiveKind kind, const GroupShape& group,
                                 std::int64_t bytes) const;
  const Plan& plan(const CollectiveRequest& request, Algorithm algorithm) const;
  void add_hierarchical(CollectiveKind kind, const std::map<int, std::vector<int>>& instances,
                        Algorithm within, bool hbm, Plan& out) const;
  CollectiveTiming timing(const CollectiveRequest& request, Servers& servers,
                          const std::function<Fs(int)>& stream_free) const;
  void time_group(const CollectiveRequest& request, Servers& servers, CollectiveTiming& t) const;
  void time_permute(const CollectiveRequest& request, Servers& servers, CollectiveTiming& t) const;

  const Config& config_;
  Topology topology_;
  Servers servers_;
  std::map<std::pair<int, int>, Fs> stream_free_;  // by rank and stream
  mutable std::map<std::vector<int>, std::unique_ptr<Plan>> plans_;
};

}  // namespace nkisim::models
