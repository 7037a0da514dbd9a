// One part of a world that is spread over processes: its own ranks in time, and what is known of
// the others.
//
// All parts keep the same record of all triggers and the same model of links and stacks, so what
// they find out does not have to be told. A part runs ahead as far as nothing that it does not know
// yet can reach it: see limit().
#pragma once

#include <deque>
#include <map>
#include <queue>

#include "isa/world/spread.hpp"
#include "models/collective/collective.hpp"
#include "models/device.hpp"
#include "models/world_run.hpp"

namespace nkisim::models {

class WorldPart final : public WorldRun {
 public:
  /// `programs`: of every rank of the world.
  WorldPart(sc_core::sc_module_name name, const isa::World& world, const Config& config,
            SimSession& session, const isa::Spread& spread,
            const std::vector<const isa::Program*>& programs);
  /// A device of this part, before the simulation starts.
  void add(Device& device);
  void trigger(Device& device, std::size_t core, Operation& op, Fs at) override;
  /// Runs until nothing is left in any part; throws the first error of all.
  void run();
  /// After run(): throws Error if a collective is left over, the same in all parts.
  void check_finished() const;

 private:
  using Group = std::vector<std::int64_t>;
  // One call of a rank, by all of its cores.
  struct Call {
    std::vector<const isa::Inst*> insts;  // per core; null: not known yet
    std::vector<Operation*> operations;   // of a rank of this part
    std::size_t known = 0, arrived = 0;   // cores
    Fs triggered = 0;                     // by the last core
    isa::RankSources sources = {};
    std::vector<std::int64_t> lengths = {};
  };
  struct Rank {
    Device* device = nullptr;  // null: of another part
    const isa::Program* program = nullptr;
    std::shared_ptr<const isa::CollectiveTable> table;
    std::deque<Call> calls;                // not started yet
    std::uint64_t started = 0;             // calls before the first of them
    std::vector<std::uint64_t> triggered;  // per core: calls
  };
  struct Arrival {
    Fs time;
    std::int64_t rank;
    std::uint64_t call;
    bool operator>(const Arrival& other) const { return time > other.time; }
  };
  // One group's operation under way, and the calls of this part's ranks in it, by position.
  struct Running {
    Group group;
    std::map<int, std::shared_ptr<Call>> calls;
    std::size_t left = 0;
  };
  // What an operation does to a rank of this part: its data begin to move, or it has ended.
  struct Effect {
    Fs time = 0;
    bool early = false;  // foreseen; the model has not come there yet
    std::int64_t rank = 0;
    Collectives::Moving moving = {};
    std::shared_ptr<Call> call = {};  // that has ended, at `end`; null: data move
    Fs end = 0;
    std::shared_ptr<RankPart> part = {};
    [[nodiscard]] bool same(const Effect& other) const;
  };
  // What the other parts know of one.
  struct Progress {
    Fs done = 0;             // everything before it has happened
    Fs next = 0;             // its next event, if nothing reaches it before
    std::deque<Fs> effects;  // of operations on its ranks, not before `done`
  };

  void step();
  void apply(const Effect& effect);
  Call& call(Rank& rank, std::uint64_t number);
  [[nodiscard]] static bool at_once(std::int64_t rank, const isa::Inst& inst);
  void note(std::int64_t rank, std::size_t core, const isa::Inst& inst, Fs at);
  void note_sources(std::int64_t rank, std::uint64_t number);
  void simulate();
  void meet();
  void hear(int part, const isa::Told& told);
  void replay();
  void arrive(const Arrival& arrival);
  void look(std::int64_t rank);
  void start_ready(Fs now);
  void start(std::int64_t rank, Fs now);
  void start(const Group& group, Fs now);
  void harvest(Fs now);
  void foresee();
  void schedule();
  void fail(Fs time, const isa::Error& error);
  [[nodiscard]] std::vector<isa::RankCalls> calls_of(const Group& group);
  [[nodiscard]] Fs next_activity(std::size_t part) const;
  [[nodiscard]] Fs first_activity() const;
  [[nodiscard]] Fs limit() const;
  [[nodiscard]] Fs next_arrival() const {
    return arrivals_.empty() ? kNever : arrivals_.top().time;
  }
  // How long after it an unknown trigger can be seen at the earliest.
  [[nodiscard]] Fs ahead() const { return hasty_ > 0 ? 0 : ahead_; }
  void find_lookahead(const std::vector<const isa::Program*>& programs);
  template <typename Fn>
  void effects_of(Collectives& model, Fs now, const Fn& fn);

  const isa::Spread& spread_;
  std::vector<Rank> ranks_;  // of the whole world
  std::vector<isa::WaitingRank> waiting_;
  bool changed_ = false, evaluates_ = false;
  int lnc_ = 1;
  Fs trigger_ = kNever;  // what a trigger instruction takes at least
  Fs ahead_ = kNever;    // Collectives::lookahead of what the programs call
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::unique_ptr<Collectives> model_;
  std::map<Collectives::Id, Running> running_;
  std::vector<Progress> parts_;
  Fs limit_ = kNever;           // of the present round
  std::size_t hasty_ = 0;       // calls of all ranks that are known, not started and at_once()
  std::size_t open_ = 0;        // calls of this part's ranks that have not ended
  std::deque<Effect> effects_;  // to come, in order
  std::deque<Effect> early_;    // foreseen ones that have come about, until the model gets there
  std::optional<isa::Failure> failure_, mine_;  // of all parts; of this one, not told yet
  isa::Words all_;                              // to be told
  std::vector<isa::Words> each_;
  sc_core::sc_event wake_;
};

}  // namespace nkisim::models
