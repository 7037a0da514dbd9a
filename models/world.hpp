// All ranks of a world in one simulation: their devices, and the collectives at which they meet.
#pragma once

#include <deque>
#include <queue>
#include <set>

#include "models/collective/collective.hpp"
#include "models/device.hpp"
#include "models/world_run.hpp"

namespace nkisim::models {

class WholeWorld final : public WorldRun {
 public:
  WholeWorld(sc_core::sc_module_name name, const isa::World& world, const Config& config,
             SimSession& session);
  /// All devices, before the simulation starts; `twins` as in RankSetup.
  void add(Device& device, const std::vector<int>& twins);
  void trigger(Device& device, std::size_t core, Operation& op, Fs at) override;
  /// After the last event: throws Error if a collective is left over.
  void check_finished() const;

 private:
  // One call of a rank, by all of its cores.
  struct Call {
    std::vector<Operation*> operations;  // per core; null: has not come yet
    std::size_t arrived = 0;
    Fs triggered = 0;  // by the last core
  };
  struct Rank {
    Device* device = nullptr;
    std::deque<Call> calls;                // not started yet, in the order of the program
    std::vector<std::size_t> next;         // per core: which of them is its next
    std::vector<std::int64_t> represents;  // itself and its twins
  };
  // Something that happens at a known time: an arrival, or (with `ends`) the end of a call.
  struct Later {
    Fs time;
    std::uint64_t number;  // of equal times, the first scheduled comes first
    std::size_t rank;      // in ranks_
    std::size_t core;
    Call call;
    bool ends;
    bool operator>(const Later& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  using Group = std::vector<std::int64_t>;
  using Lengths = std::vector<std::vector<std::int64_t>>;
  // A call of one device under way, on all ranks that it stands for.
  struct InFlight {
    Call call;
    std::size_t ranks_left = 0;
    Fs end = kNever;                       // of those that have finished
    std::shared_ptr<const RankPart> part;  // of the device's own rank; null: it needed nobody
  };
  // One group's operation under way.
  struct Running {
    Group group;
    std::shared_ptr<std::map<std::size_t, InFlight>> flights;  // by device
    std::size_t left = 0;                                      // ranks
  };
  void step();
  void arrive(const Later& arrival);
  void look(std::size_t rank);
  void put(Later later);
  void start_ready();
  void start(std::size_t rank);
  void start(const Group& group, const Lengths& lengths,
             const std::shared_ptr<std::map<std::size_t, InFlight>>& flights);
  bool together(std::size_t rank, std::vector<Group>& groups, std::set<std::size_t>& devices) const;
  [[nodiscard]] Lengths exchange(const Group& group);
  [[nodiscard]] const Call& call_of(std::int64_t rank) const;
  void finish_ranks(Fs now);

  std::vector<Rank> ranks_;                // simulated ones
  std::vector<std::size_t> owner_;         // of every rank of the world: index in ranks_
  std::vector<isa::WaitingRank> waiting_;  // of every rank: at its oldest call, once all cores are
  bool changed_ = false;
  std::priority_queue<Later, std::vector<Later>, std::greater<>> later_;
  std::uint64_t scheduled_ = 0;
  std::unique_ptr<Collectives> model_;  // from the first operation of several ranks on
  std::map<Collectives::Id, Running> running_;
  sc_core::sc_event wake_;
};

}  // namespace nkisim::models
