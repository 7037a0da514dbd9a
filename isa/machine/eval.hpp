// Declares EvalContext, through which an instruction's code gets operands as dense tiles and the
// engine's registers, and stores its result.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "isa/base/alu.hpp"
#include "isa/base/inst.hpp"
#include "isa/machine/conditions.hpp"
#include "isa/machine/memory.hpp"
#include "isa/machine/rendezvous.hpp"
#include "isa/program/core_state.hpp"

namespace nkisim::isa {

/// Dense row-major values of an operand. The memory belongs to the EvalContext and lives until the
/// instruction ends.
template <typename T>
struct Tile {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  [[nodiscard]] T* row(std::int64_t r) const { return data + r * columns; }
  [[nodiscard]] std::int64_t size() const { return rows * columns; }
};

/// Services for one instruction at a time. Reads apply dynamic offsets and check run-time bounds;
/// writes mark bytes as defined. An eval reads before it writes memory or state: where it meets an
/// undefined byte it is given up and evaluated anew (isa/machine/eval_undefined.cpp). Rows are
/// partitions (on chip) or the first dimension (HBM); columns are the flattened rest.
class EvalContext {
 public:
  EvalContext(const Program& program, Memory& memory, CoreState& state,
              Unwritten unwritten = Unwritten::kError);
  ~EvalContext();

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const Machine& machine() const { return program_.machine(); }
  [[nodiscard]] Memory& memory() { return memory_; }
  [[nodiscard]] CoreState& state() { return state_; }
  PrintSink print;

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
  [[nodiscard]] const Parcel* received() const { return received_; }

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

  /// Operand as FP32 values (packed dtypes: 4 columns per element).
  Tile<float> load(const TensorRef& ref);
  void store(const TensorRef& ref, const Tile<float>& values);
  /// Operand as integers, sign- or zero-extended to 32 bits.
  Tile<std::uint32_t> load_bits(const TensorRef& ref);
  void store_bits(const TensorRef& ref, const Tile<std::uint32_t>& values);
  /// Operand as raw elements: columns * size_bytes(dtype) bytes per row.
  Tile<std::byte> load_raw(const TensorRef& ref);
  void store_raw(const TensorRef& ref, const Tile<std::byte>& values);
  /// Packs an operand for `send`: its bytes, and which of them are undefined.
  Parcel pack(const TensorRef& ref);
  /// As store_raw, but only the elements whose `mask` is not zero; others are not touched and not
  /// marked as defined.
  void store_raw_where(const TensorRef& ref, const Tile<std::byte>& values,
                       const Tile<std::uint8_t>& mask);
  /// For each row of an operand scattered through an index tensor, an earlier row with the same
  /// index, -1 if there is none; empty where no index occurs twice.
  [[nodiscard]] std::vector<std::int64_t> repeated_rows(const TensorRef& ref);
  /// Elements that rows with equal indices give different values are undefined from now on: the
  /// order in which a DMA writes them is not defined.
  void undefine_repeated(const TensorRef& ref, const Tile<std::byte>& values);
  /// The same where a DMA overwrites, with other values (`values` for dst), elements of its own
  /// source that go to another place: the old or the new value may arrive there. `becomes`: which
  /// element of dst each of src goes to; empty: the one of the same number.
  void undefine_overlap(const TensorRef& dst, const TensorRef& src, const Tile<std::byte>& values,
                        const std::vector<std::int64_t>& becomes = {});
  /// True if an operand's pattern reaches an element more than once.
  [[nodiscard]] bool comes_back(const TensorRef& ref);
  /// dst = src, element for element, of the same dtype.
  void copy_raw(const TensorRef& dst, const TensorRef& src);
  /// Calls fn(row, inputs, out, columns) for each row: inputs as FP32, `out` to be filled with FP32
  /// (it may be one of the inputs' arrays) and then stored to `dst`. As load, compute and store of
  /// whole tiles, but values stay in the first-level cache where the operands allow it.
  using RowFn = std::function<void(std::int64_t, const float* const*, float*, std::size_t)>;
  void map_rows(std::initializer_list<const TensorRef*> inputs, const TensorRef& dst,
                const RowFn& fn);
  /// Uninitialised scratch tile.
  template <typename T>
  Tile<T> make(std::int64_t rows, std::int64_t columns) {
    return {static_cast<T*>(scratch(static_cast<std::size_t>(rows * columns) * sizeof(T))), rows,
            columns};
  }
  /// A kScalarOrTensor argument as one FP32 value per row; `absent` where it is not given.
  Tile<float> column(const Arg& arg, std::int64_t rows, float absent = 0.0F);
  /// The same as integer bits (bitvec operands).
  Tile<std::uint32_t> column_bits(const Arg& arg, std::int64_t rows);
  /// An kInt, kIntOrRegister argument now.
  [[nodiscard]] std::int64_t value(const Arg& arg) const;

  /// DMA: do not fail on out-of-range dynamic indices but drop what they address.
  void set_skip_out_of_bounds(bool skip) { skip_out_of_bounds_ = skip; }
  /// The rows of the last loaded or stored operand that were dropped; empty: none.
  [[nodiscard]] const std::vector<bool>& skipped_rows() const { return skipped_; }
  /// The bytes [start, start+size) of an operand's flat element order, as runs, after dynamic
  /// offsets.
  struct Run {
    std::byte* data = nullptr;  // null where the row was skipped
    std::int64_t count = 0;
    std::int64_t step_bytes = 0;
    std::int64_t row = 0;
  };
  /// Only looks where the bytes are: neither checks nor marks them.
  void for_each_run(const TensorRef& ref, const std::function<void(const Run&)>& fn);
  /// An on-chip operand whose rows are dense, reached in place; checks and marks like load or
  /// store. Null data if the operand is strided or dynamic: use load and store then.
  struct InPlace {
    std::byte* data = nullptr;
    std::int64_t pitch_bytes = 0;  // from one row to the next
  };
  InPlace in_place(const TensorRef& ref, bool write);
  /// First byte of the operand (as a place in its tensor's partition) that an engine other than
  /// the tensor engine wrote last, or -1. Tracked for PSUM before v4.
  [[nodiscard]] std::int64_t find_foreign(const TensorRef& ref);
  /// The level of a rule in this run.
  [[nodiscard]] Level level(Rule rule) const { return rules_.of(rule); }
  /// The running instruction breaks a rule whose level is given: throws it, or warns, once for each
  /// instruction.
  void report(Level level, Rule rule, const std::string& message);
  /// FP32 values as elements of dst, each rounded once, row-major. For an op that writes them
  /// itself; store() and map_rows() do the same.
  [[nodiscard]] Tile<std::byte> cast(const TensorRef& dst, const Tile<float>& values);
  /// Looks for values that `dst`, to whose elements from `first` on they are going to be cast,
  /// cannot hold. The first of them is named when the instruction ends (Rule::cast_overflow), once
  /// for each place in the kernel.
  void watch(const TensorRef& dst, const float* values, std::size_t count, std::size_t first = 0);
  /// The same of exact integer arithmetic, op(a, b), whose results `dst` gets: signed ones that
  /// wrap are named. Unsigned arithmetic, as of hashes, is modular and not looked at.
  void watch_words(const TensorRef& dst, AluOp op, const std::uint32_t* a, const std::uint32_t* b,
                   std::size_t count, std::size_t first = 0);

 private:
  struct Access;
  struct Replay;  // isa/machine/eval_undefined.cpp
  // The effect of a walk on the elements: it reads them and checks that they are defined, writes
  // and marks them all, or leaves both to the caller.
  enum class Touch : std::uint8_t { kRead, kWrite, kSome };
  struct RunPlace {  // bytes inside a region; row_start: where the row's tensor begins
    std::int64_t byte, count, step, row_start, row;
  };
  struct FoundUndefined {};  // thrown where an eval reads an undefined byte
  Access access(const TensorRef& ref);
  [[nodiscard]] std::int64_t offset_value(const DynamicOffset& d);
  std::vector<std::int64_t> indices(const TensorRef& ref, const DynamicOffset& d);
  void touch(const TensorRef& ref, const Placement& place, Touch how, const RunPlace& run);
  [[nodiscard]] bool tracks_origin(Space space) const;
  void mark_written(const TensorRef& ref, const Placement& place, std::int64_t row,
                    std::int64_t first, std::int64_t count);
  void evaluate(const Inst& inst);
  [[nodiscard]] Moved count_moved(const TensorRef& ref);
  void evaluate_undefined(const Inst& inst);
  void mark_repeated();
  bool may_repeat(const TensorRef& ref);
  void undefine(const TensorRef& ref, const Parcel& parcel, std::int64_t first);
  void check_steering(const Inst& inst);
  void collect(const Inst& inst, Replay& replay);
  void collect(const TensorRef& ref, bool written, Replay& replay);
  struct Found {
    std::int64_t row = 0, column = 0;
    bool defined = false;
  };
  [[nodiscard]] Found find_element(const TensorRef& ref, std::size_t element);
  void say_overflow();
  [[nodiscard]] bool rounds_integers(const TensorRef& dst) const;
  // Warns once for each instruction.
  void say_cut_off(const TensorRef& ref, std::int64_t row, std::int64_t index);
  void replay_once(const Inst& inst, Replay& replay, int fill);
  void conclude(const Inst& inst, Replay& replay);
  void compare_state(Replay& replay) const;
  [[nodiscard]] std::uint32_t origin_of(const TensorRef& ref, const Placement& place,
                                        std::int64_t byte, std::int64_t row);
  [[nodiscard]] bool state_undefined(const Inst& inst) const;
  // Rows of an operand that are one run of bytes each, at fixed places; empty region otherwise.
  struct DenseRows {
    Placement place;
    std::int64_t rows = 0, row_bytes = 0;
    [[nodiscard]] std::byte* row(std::int64_t r) const {
      return place.region->data() + place.start + r * place.pitch;
    }
  };
  [[nodiscard]] DenseRows dense_rows(const TensorRef& ref);
  static bool may_stream(const DenseRows& dst, const DenseRows& src);
  void check_defined(const DenseRows& dense) const;
  template <typename Fn>
  void walk(const TensorRef& ref, Touch how, Fn&& fn);
  // fn() with fresh scratch tiles; its errors carry the name and location of `inst`.
  template <typename Fn>
  void locating(const Inst& inst, Fn&& fn);
  // Stores of `ref` are rounded stochastically; `values` as they then are.
  [[nodiscard]] bool rounds(const TensorRef& ref) const;
  [[nodiscard]] Tile<float> rounded(const TensorRef& ref, const Tile<float>& values);
  void* scratch(std::size_t bytes);

  const Program& program_;
  Memory& memory_;
  CoreState& state_;
  Unwritten unwritten_;
  const Parcel* received_ = nullptr;
  bool skip_out_of_bounds_ = false;
  bool receiving_ = true;
  RulePolicy rules_;
  WarningSink warn_;  // null: warnings are lost
  std::vector<std::pair<const Inst*, Rule>> warned_;
  struct Overflow {
    const TensorRef* ref;
    std::size_t element;
    float value;
    bool unsure;  // found in a replay: it counts if it is defined in the end
    std::optional<std::int64_t> exact = std::nullopt;  // of an integer that wraps
    Rule rule = Rule::cast_overflow;                   // or integer_rounded
  };
  bool watches_ = false;            // Rule::cast_overflow or integer_rounded is on
  std::vector<Overflow> overflow_;  // of the running instruction: the first, or candidates
  std::set<IntegerCastsByPlace::Line> reported_;  // the places whose casts have been reported
  bool wrote_ = false;                            // the running instruction has begun to write
  Replay* replay_ = nullptr;                      // it is evaluated for what is undefined
  const Inst* inst_ = nullptr;                    // the running instruction
  Engine engine_ = Engine::kVector;               // the running instruction's
  std::vector<bool> skipped_;
  struct Repeated {  // bytes written twice by the running instruction
    std::int64_t bit, size;
    Origin origin;
  };
  std::vector<Repeated> repeated_;
  // The places of an operand's elements: their bytes, in element order; null where skipped.
  [[nodiscard]] std::vector<std::byte*> element_places(const TensorRef& ref);
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t size = 0;
  };
  std::vector<Block> blocks_;
  std::size_t block_ = 0, used_ = 0;
};

}  // namespace nkisim::isa
