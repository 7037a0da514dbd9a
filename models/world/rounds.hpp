// Limits how far the ranks of this process may be simulated ahead of other processes' ranks, and
// exchanges messages with them. All processes keep the same record of all triggers and the same
// model of links and stacks (world.hpp), so what they find out does not have to be sent. A process
// runs ahead as far as nothing that it does not know yet can reach it: see limit().
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "isa/world/shard.hpp"
#include "models/world/world.hpp"

namespace nkisim::models {

class Rounds {
 public:
  Rounds(World& world, const isa::Shard& shard, const Config& config, SimSession& session,
         const std::vector<const isa::Program*>& programs);
  /// Runs until nothing is left in any shard; throws the first error of all.
  void run();

  // For the world, within the simulation:
  /// Throws an internal Error if a trigger comes before it could be sent.
  void check_trigger(std::int64_t rank, Fs at) const;
  /// A core of a rank of this shard has triggered a collective, which is noted.
  void triggered(const isa::Post::Called& called, std::uint64_t call);
  /// A call has started that is the oldest of a rank.
  void started(std::int64_t rank, const isa::Inst& inst);
  /// Applies the effects of operations on this shard's ranks until `now`.
  void apply_effects(Fs now);
  [[nodiscard]] sc_core::sc_event& wake() { return wake_; }

 private:
  // The progress of a shard, as all shards know it.
  struct Progress {
    Fs done = 0;             // everything before it has happened
    Fs next = 0;             // its next event, if nothing reaches it before
    std::deque<Fs> effects;  // of operations on its ranks, not before `done`
  };
  [[nodiscard]] static bool at_once(std::int64_t rank, const isa::Inst& inst);
  void find_lookahead(const Config& config, const std::vector<const isa::Program*>& programs);
  void count(const isa::Post::Called& called, std::uint64_t call);
  void read_sources(std::int64_t rank, std::uint64_t call);
  void simulate();
  void meet();
  void on_message(std::size_t shard, const isa::Message& messages);
  void replay();
  void dispatch(World::Effects& effects);
  void foresee();
  void schedule();
  void fail(Fs time, isa::Error error);
  [[nodiscard]] Progress& here() { return shards_[static_cast<std::size_t>(shard_.number)]; }
  [[nodiscard]] const Progress& here() const {
    return shards_[static_cast<std::size_t>(shard_.number)];
  }
  [[nodiscard]] Fs next_activity(const Progress& shard) const;
  [[nodiscard]] Fs first_activity() const;
  [[nodiscard]] Fs limit() const;
  // The least time after it at which an unknown trigger can be seen.
  [[nodiscard]] Fs ahead() const { return immediate_calls_ > 0 ? 0 : ahead_; }

  World& world_;
  const isa::Shard& shard_;
  SimSession& session_;
  const isa::Program& first_program_;  // of errors
  isa::Post post_;
  Fs trigger_ = kNever;  // what a trigger instruction takes at least
  Fs ahead_ = kNever;    // Collectives::lookahead of what the programs call
  std::vector<Progress> shards_;
  Fs limit_ = kNever;                // of the present round
  std::size_t immediate_calls_ = 0;  // calls of all ranks that are known, not started and at_once()
  std::size_t open_ = 0;             // calls of this shard's ranks that have not ended
  World::Effects effects_;           // to come, in order
  World::Effects early_;  // foreseen ones that have come about, until the model gets there
  std::optional<isa::Failure> failure_, mine_;  // of all shards; of this one, not sent yet
  sc_core::sc_event wake_;
};

}  // namespace nkisim::models
