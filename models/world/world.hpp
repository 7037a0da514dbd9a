// Models a world, which is all ranks that run together: the memory that they share, and the
// collective operations at which they wait for one another.
//
// The record of who has come to which call and the model of what operations do are one, however
// many processes simulate the ranks. In one process the record goes on as the simulation does; in
// several each shard keeps the same record of all ranks and learns how far it can go (rounds.hpp).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <vector>

#include "isa/world/meeting.hpp"
#include "isa/world/shard.hpp"
#include "models/chip/chip.hpp"
#include "models/chip/links.hpp"
#include "models/core/operation.hpp"
#include "models/core/rank.hpp"
#include "models/run.hpp"
#include "models/sim_session.hpp"

namespace nkisim::models {

class Rounds;

class World final : public sc_core::sc_module {
 public:
  [[nodiscard]] const char* kind() const override { return "World"; }
  /// `programs`: of every rank. `session`: null where a host runs it.
  World(const sc_core::sc_module_name& name, const isa::World& world,
        std::reference_wrapper<const Config> config, Clock& clock, SimSession* session,
        const isa::Shard& shard, const std::vector<const isa::Program*>& programs, Chips& chips);
  ~World() override;
  /// A rank of this process, before the simulation starts; `twins` as in RankSetup.
  void add(Rank& rank, const std::vector<int>& twins);
  /// Runs until nothing is left in any process; throws the first error of all. With a session.
  void run();
  /// After run(): throws Error if a collective is left over.
  void check_finished() const { meeting_.check_finished(); }

  // For the ranks:
  /// The HBM stack that a rank reaches, which its neighbours share.
  [[nodiscard]] hbm_if& stack(int rank) { return chips_.stack(rank); }
  /// All cores of a rank are at their meeting of that number, which takes place when every core
  /// of the world has done what is due at this instant.
  void met(Rank& rank, std::uint32_t number);
  /// A core of a rank has triggered a collective; the instruction ends at `at`.
  void trigger(Rank& rank, std::size_t core, Operation& op, Fs at);

  // For the rounds:
  /// One call of a rank under way, on all ranks that it stands for.
  struct Flight {
    std::vector<Operation*> operations = {};  // per core
    std::size_t ranks_left = 0;
    Fs end = kNever;                                 // of those that have finished
    std::shared_ptr<const RankPart> part = nullptr;  // of the rank itself, not of its twins
  };
  /// An effect of an operation on a rank: its data begin to move, or it has ended.
  struct Effect {
    Fs time = 0;
    bool early = false;     // foreseen; the model has not come there yet
    std::int64_t rank = 0;  // a host (isa::Meeting) of any process
    Collectives::Moving moving = {};
    Fs end = kNever;                            // kNever: data move
    std::shared_ptr<const Flight> flight = {};  // of a rank of this process that has ended
    std::shared_ptr<const RankPart> part = {};  // null: it needed no other
    [[nodiscard]] bool same(const Effect& other) const;
  };
  using Effects = std::deque<Effect>;
  /// A core of a rank of any process calls a collective; the number of the call.
  std::uint64_t note(const isa::Post::Called& called);
  /// The next time of the record, from the noted calls; kNever: there is none.
  [[nodiscard]] Fs next_arrival() const {
    return arrivals_.empty() ? kNever : arrivals_.top().time;
  }
  [[nodiscard]] Fs next_of_model() const { return links_ == nullptr ? kNever : links_->next(); }
  /// The record goes on to `now`: effects on ranks of any process are appended to `effects`.
  void record(Fs now, Effects& effects);
  /// Appends the effects before `limit`, provided that no core triggers a call.
  void foresee(Fs limit, Effects& effects) const;
  /// Call it for the effects of one instant in the order in which the record has them.
  void apply(const Effect& effect);
  /// Nothing is to come that is known of.
  [[nodiscard]] bool idle() const {
    return met_.empty() && next_arrival() == kNever && next_of_model() == kNever;
  }
  [[nodiscard]] isa::Meeting& meeting() { return meeting_; }
  [[nodiscard]] bool evaluates() const { return evaluates_; }

 private:
  using Group = isa::Meeting::Group;
  using Flights = std::map<std::int64_t, std::shared_ptr<Flight>>;  // by host, of this process
  // The facts of a call that isa::Meeting does not keep.
  struct Call {
    std::vector<Operation*> operations;  // per core, of a rank of this process
    Fs triggered = 0, prepared = 0;      // by the last core
  };
  struct Member {
    Rank* module = nullptr;  // null: of another process, or a twin
    std::deque<Call> calls = {};
    std::uint64_t started = 0;  // calls before the first of them
  };
  struct Arrival {
    Fs time;
    std::int64_t rank;
    std::uint64_t call;
    auto operator<=>(const Arrival&) const = default;
  };
  // One group's operation under way.
  struct Running {
    Group group;
    std::shared_ptr<Flights> flights;
    std::size_t left = 0;  // ranks
  };
  void step();
  void act(Fs now);
  void hold_meetings(Fs now);
  [[nodiscard]] Member& member(std::int64_t host) { return ranks_[static_cast<std::size_t>(host)]; }
  Call& call(Member& member, std::uint64_t number);
  [[nodiscard]] const Call& oldest(std::int64_t rank);
  void start(std::int64_t rank, Fs now, Effects& effects);
  void start(const Group& group, isa::Meeting::Lengths lengths,
             const std::shared_ptr<Flights>& flights, Fs now);
  void harvest(Fs now, Effects& effects);
  [[nodiscard]] static bool ended(const Flights& flights, Effect& effect);
  template <typename Model, typename Fn>
  void effects_of(Model& model, Fs now, const Fn& fn) const;

  isa::World world_;
  const Config& config_;
  Clock& clock_;
  SimSession* session_;
  Chips& chips_;
  isa::Meeting meeting_;
  std::vector<Member> ranks_;  // of the whole world
  bool evaluates_ = false;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::unique_ptr<Links> links_;  // null: no rank has another
  std::map<Collectives::Id, Running> running_;
  std::unique_ptr<Rounds> rounds_;  // null: the world is in this process alone
  struct Met {
    Rank* rank;
    std::uint32_t number;
  };
  std::vector<Met> met_;  // at this instant
  Alarm wake_;            // to act in the next delta cycle
  Alarm alarm_;           // when the record goes on
};

}  // namespace nkisim::models
