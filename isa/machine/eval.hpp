// Declares EvalContext, which runs instructions for their values.
#pragma once

#include "isa/machine/op_context.hpp"

namespace nkisim::isa {

/// Evaluates one instruction at a time on the memory and state of a core. It consists of Running
/// (where it runs), ByteMarks (what is undefined), OperandPlaces (addresses and bounds), Scratch,
/// CastWatch (conversion) and OpContext (what the op sees).
class EvalContext : public OpContext {
 public:
  EvalContext(const Program& program, Memory& memory, CoreState& state,
              Unwritten unwritten = Unwritten::kError)
      : OpContext(program, memory, state, unwritten) {}

  /// Makes the state of `core`, which starts, what the conditions of its run ask for.
  void begin(const Conditions& conditions, int core);
  /// Runs the op's eval; scratch tiles of the previous instruction become invalid. Errors carry the
  /// instruction's name and location.
  void run(const Inst& inst);

  /// The rows of a DMA that its indices, as they are now, let through. Nothing is read but these.
  struct Moved {
    std::int64_t rows = 0, all = 0;  // of the operand of which the smaller share moves
    std::int64_t span = 0;           // from the first row that moves to the last
  };
  /// `all` is 0 where the DMA does not skip, or its indices are no such ones as run() takes.
  [[nodiscard]] Moved moved_rows(const Inst& inst);
  /// The message of `inst` to its partner. Call it when the cores have met, before either runs.
  /// Errors as of run().
  [[nodiscard]] Parcel send(const Inst& inst);
  /// Runs a rendezvous with what the partner sent; null on a single core.
  void run(const Inst& inst, const Parcel* received);

  /// For collectives (isa/world/exchange.hpp), where ranks write each other's results. An operand
  /// of `inst` as it is now; what is undefined goes along.
  [[nodiscard]] Parcel take(const Inst& inst, const TensorRef& ref);
  /// Writes the operand's elements from `first` on, in row-major order.
  void give(const Inst& inst, const TensorRef& ref, const Parcel& parcel, std::int64_t first = 0);
  /// In a partial run: whether the core executes the instruction at which it meets others. If not,
  /// give() writes nothing.
  void set_receiving(bool receives) { receiving_ = receives; }
  [[nodiscard]] bool receiving() const { return receiving_; }
  /// A collective is over: to be called once, when all its operands have been taken and given.
  void done(const Inst& inst) { memory_.done(inst); }

 private:
  struct Replay;  // isa/machine/replay.hpp
  // fn() with fresh scratch tiles; its errors carry the name and location of `inst`.
  template <typename Fn>
  void locating(const Inst& inst, Fn&& fn);
  void evaluate(const Inst& inst);
  [[nodiscard]] Moved count_moved(const TensorRef& ref);
  void undefine(const TensorRef& ref, const Parcel& parcel, std::int64_t first);
  // Evaluation of what reads undefined bytes: isa/machine/eval_undefined.cpp.
  [[nodiscard]] bool state_undefined(const Inst& inst) const;
  void evaluate_undefined(const Inst& inst);
  void check_steering(const Inst& inst);
  void collect(const Inst& inst, Replay& replay);
  void collect(const TensorRef& ref, bool written, Replay& replay);
  void replay_once(const Inst& inst, Replay& replay, int fill);
  void compare_state(Replay& replay) const;
  void conclude(const Inst& inst, Replay& replay);

  bool receiving_ = true;
};

}  // namespace nkisim::isa
