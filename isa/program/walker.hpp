// Steps through a program in order, one executed instruction at a time: loops and branches are
// followed and registers have their values.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "isa/program/core_state.hpp"
#include "isa/program/program.hpp"

namespace nkisim::isa {

/// One execution of one instruction.
struct Step {
  const Inst* inst = nullptr;
  std::uint64_t sequence = 0;  // counts dynamic instructions of the core from 0
};

/// Walks the instructions of one core in program order. Control ops (loop_begin, while_begin,
/// if_begin, ...) are returned as steps too, because sequencers spend time on them, but the walker
/// itself decides where to go next, from the registers in `state` at that moment. The caller must
/// have executed every earlier register_load (and register ops) before calling next() past it.
/// The program may grow behind the walker; a block must be complete when next() enters it.
class Walker {
 public:
  /// `checks_offsets`: the caller executes nothing, so that an operand outside its tensor is an
  /// error as soon as a step has it. One who does meets the error when the instruction runs.
  Walker(const Program& program, int core, CoreState& state, bool checks_offsets);
  /// Goes on where `other` is, with a state of its own.
  Walker(const Walker& other, CoreState& state)
      : program_(other.program_),
        core_(other.core_),
        state_(state),
        checks_offsets_(other.checks_offsets_),
        match_(other.match_),
        open_(other.open_),
        scanned_(other.scanned_),
        loops_(other.loops_),
        at_(other.at_),
        sequence_(other.sequence_),
        must_execute_(other.must_execute_) {}
  /// The next step; empty at the end. Throws Error on a malformed bound (step <= 0), if
  /// it checks offsets where a register takes an operand outside its tensor, and, if the state says
  /// so, where the step uses a register that was never set or goes on in a reduction that nothing
  /// began.
  std::optional<Step> next();
  /// True if the last step returned writes a register from memory: its result must be in `state`
  /// before next() is called again.
  [[nodiscard]] bool must_execute_first() const { return must_execute_; }

 private:
  struct Loop {
    std::size_t begin = 0;  // index of the *_begin instruction
    std::int64_t stop = 0;
  };
  std::size_t after_control(std::size_t i);
  void check(const Inst& inst);
  void check_ends(std::size_t begin, std::size_t end) const;
  /// fn(), whose errors are of `inst`.
  template <typename Fn>
  auto locating(const Inst& inst, Fn&& fn) const;
  void find_blocks();
  [[nodiscard]] std::size_t match(std::size_t control);

  const Program& program_;
  int core_;
  CoreState& state_;
  bool checks_offsets_;
  std::unordered_map<std::size_t, std::size_t> match_;  // begin -> end (or else), end -> begin
  std::vector<std::size_t> open_;                       // blocks without an end so far
  std::size_t scanned_ = 0;                             // of the program's control flow
  std::vector<Loop> loops_;
  std::size_t at_ = 0;  // index in the program's instructions
  std::uint64_t sequence_ = 0;
  bool must_execute_ = false;
};

}  // namespace nkisim::isa
