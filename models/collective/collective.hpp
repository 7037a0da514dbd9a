// Computes when each rank starts and ends its part of a collective operation.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "models/collective/planner.hpp"
#include "models/collective/timing.hpp"
#include "models/config.hpp"

namespace nkisim::models {

/// The links, stacks and streams of a world of ranks. On each rank the operations of a stream keep
/// their order; streams, and groups of other ranks, share the servers as they go.
///
/// Time only moves forward: start() and advance() take a `now` that is never before the last one.
class Collectives {
 public:
  using Id = int;
  /// A rank of an operation has finished it.
  struct RankDone {
    Fs end = 0;
    Id id = 0;
    int position = 0;
  };
  /// Data of a rank begin to move.
  struct Moving {
    int rank = 0, stream = 0;
    Fs start = 0, span = 0;   // span: if nothing else needs the servers
    double hbm_bytes = 0;     // through the interface of the rank's stack
    double engine_bytes = 0;  // by its DMA engines
  };
  Collectives(std::reference_wrapper<const Config> config, int lnc, int ranks);
  /// The same operations, to see how they go on if nothing is started.
  Collectives(const Collectives& other);
  Collectives& operator=(const Collectives&) = delete;
  ~Collectives();
  /// So long after its own trigger at least, no rank sees anything of an operation, nor does
  /// another operation of what it moves; and, of all but permutes, so long after the last trigger
  /// of the group. A permute's pairs need each other alone: early ones begin at the last trigger.
  [[nodiscard]] static Fs lookahead(const CollectiveConfig& config, CollectiveKind kind,
                                    bool prepared = false);
  /// Begins an operation whose last rank has triggered it at or before `now`.
  Id start(CollectiveRequest request, Fs now);
  /// The time of the next advance(), if nothing is started before; kNever if nothing is under way.
  [[nodiscard]] Fs next() const;
  /// Appends the ranks that have finished by `now`, in the order of their ends.
  void advance(Fs now, std::vector<RankDone>& done);
  /// Transfers that began since the last call, up to the last advance().
  [[nodiscard]] std::vector<Moving> moving();
  /// A rank's part of an operation that it has finished and that is not taken yet.
  [[nodiscard]] RankPart part(Id id, int position) const;
  /// The timing of an operation that all its ranks have finished; it is forgotten.
  [[nodiscard]] CollectiveTiming take(Id id);

  /// The timing of an operation that has the world to itself.
  [[nodiscard]] CollectiveTiming alone(const CollectiveRequest& request) const;
  /// The algorithm that the config chooses.
  [[nodiscard]] Algorithm select(const CollectiveRequest& request) const {
    return planner_.choose(request).algorithm;
  }
  [[nodiscard]] const Topology& topology() const { return topology_; }

 private:
  // A latency, then (with loads) bytes that move.
  struct Item {
    CollectivePhase phase{};
    Fs latency = 0, least = 0;
    std::vector<ServerLoad> loads = {};
  };
  // A step that ranks take together: all ranks of a group, or the two of a pair.
  struct Leg {
    std::vector<int> positions = {};
    std::vector<Item> items = {};
    std::size_t item = 0;
    Fs ready = 0, at = 0;
    std::vector<PhaseTime> phases = {};
  };
  struct Operation;
  struct Event {
    Fs time;
    std::uint64_t number;
    Id id;
    int leg;
    bool operator>(const Event& o) const {
      return time != o.time ? time > o.time : number > o.number;
    }
  };
  using Rank = std::pair<int, int>;  // rank of the world, stream

  void add_group_leg(Operation& op) const;
  void add_pair_leg(Operation& op, int source, int target) const;
  void start_rank(Operation& op, int position, Fs previous_end);
  void begin(Operation& op, int leg);
  void set_up(const Operation& op, Leg& leg) const;
  void schedule(Operation& op, int leg);
  void step(const Event& event);
  void flowed(const Flows::Ended& ended);
  void finish(Operation& op, int leg, Fs now);
  void process(Fs now);
  void note_moving(const Operation& op, const Leg& leg, const Item& item, Fs start);

  const Config& config_;
  Topology topology_;
  mutable CollectivePlanner planner_;
  Flows flows_;
  Fs clock_ = 0;
  Id next_id_ = 0;
  std::map<Id, Operation> operations_;
  std::map<Rank, std::deque<Id>> streams_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t scheduled_ = 0;
  std::map<int, std::pair<Id, int>> flow_of_;  // leg by flow
  int next_flow_ = 0;
  std::vector<RankDone> done_;
  std::vector<Moving> moving_;
};

}  // namespace nkisim::models
