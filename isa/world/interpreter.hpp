// Runs a program in program order without timing. Simulation with timing must give the same values.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "isa/machine/eval.hpp"
#include "isa/machine/undefined.hpp"
#include "isa/program/program.hpp"

namespace nkisim::isa {

struct Shard;

/// The part of one step of a core that is executed, where not all of a program is.
enum class StepEffect : std::uint8_t {
  kNone,  // it is passed over, and nothing waits for it
  kSend,  // where cores or ranks meet: others get what it sends, and it takes nothing
  kAll,
  kEnd,  // the core has come to its end before it
};

struct InterpretOptions {
  Conditions conditions = {};
  /// False: only what the sequencers compute (registers), for looking at a program without data.
  /// The program must load no register from memory.
  bool values = true;
  /// Ranks of the run, and which of them this is.
  World world = {};
  int rank = 0;
  /// A run of one rank of several: the others are taken to hold what it holds, at every collective.
  /// Otherwise a collective with other ranks is an error in a run of one.
  bool lockstep = false;
  /// Called before every instruction but control flow, with the core's registers as it sees them.
  std::function<void(const Inst&, EvalContext&)> before = {};
  /// Says of a step of a core, by its number (Step::sequence), what is executed; control flow and
  /// registers of the sequencer are in any case. Empty: everything. With it nothing looks for
  /// undefined values in outputs.
  std::function<StepEffect(int core, std::uint64_t sequence)> effect = {};
  /// Called behind every instruction, except where cores meet.
  std::function<void(const Inst&)> after = {};
  /// Called now and then with the dynamic instructions done; return false to stop early.
  std::function<bool(std::uint64_t)> progress;
};

/// Executes all cores of `program` on `memory` (inputs already loaded). Cores run one after the
/// other between points where they wait for each other. Throws Error located in the program;
/// a core that waits for a partner that never comes is an error that names both. Returns the number
/// of dynamic instructions executed.
std::uint64_t interpret(const Program& program, Memory& memory,
                        const InterpretOptions& options = {});

/// One rank of a world: the program it runs (ranks may share one) and its own memory.
struct RankRun {
  const Program* program = nullptr;
  Memory* memory = nullptr;
  InterpretOptions options = {};  // `rank` and `world` are filled in
};
/// Executes all ranks of a world, rank k being ranks[k]. Each runs until it needs what others have
/// not sent yet; then the next one goes on. Throws Error located in a program: ranks that disagree
/// about a collective, or wait for each other for ever. Returns the dynamic instructions of all.
/// Of a world in several processes only the shard's ranks run here (the others need no memory) and
/// are counted; the other shards make the same call, and the first error of all is thrown in each.
std::uint64_t interpret_world(std::span<const RankRun> ranks, const World& world,
                              const Shard& shard);
std::uint64_t interpret_world(std::span<const RankRun> ranks, const World& world);

/// Executes a program while it is being recorded (front ends that show values on demand): every
/// call goes on where the last one stopped.
class Evaluation {
 public:
  /// `cores`: how many the program will have; some may have no instructions yet.
  Evaluation(const Program& program, Memory& memory, int cores, InterpretOptions options = {});
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  /// Runs every core as far as its instructions and its meetings with the others allow. No core may
  /// have an open loop or branch. True if `core` got to the end of its instructions; false if it
  /// waits for one that is not recorded that far, which is an Error located at its instruction if
  /// the others are `complete`, and also if options.progress asked to stop.
  bool advance(int core, bool complete);
  /// Tensors that nothing beyond the instructions recorded so far can name, with the numbers of
  /// their last uses: advance() releases each behind that instruction, which is in no loop, or at
  /// its end
  /// (-1). For programs of one core.
  void release_behind(const std::vector<std::pair<std::int64_t, std::uint32_t>>& last_uses);

 private:
  struct Cores;
  const Program& program_;
  Memory& memory_;
  std::unordered_map<const Inst*, std::vector<std::uint32_t>> releases_;  // null: at the end
  InterpretOptions options_;
  std::unique_ptr<Cores> cores_;
  std::uint64_t count_ = 0;
};

}  // namespace nkisim::isa
