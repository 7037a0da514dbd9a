// Declares ByteMarks, which checks that the bytes an instruction reads are defined and marks those
// that it writes, and WriteLog.
#pragma once

#include <cstddef>
#include <vector>

#include "isa/machine/running.hpp"

namespace nkisim::isa {

/// The bytes that evaluations of one instruction write, where nothing is to be marked yet
/// (isa/machine/replay.hpp).
class WriteLog {
 public:
  void note(const std::byte* first, const std::byte* last);
  /// An evaluation is over. Nearly all of them write the same places: those are kept once.
  void end_evaluation();
  /// True until the first evaluation has ended.
  [[nodiscard]] bool first() const { return evaluations_ == 0; }
  /// To be called before written().
  void merge();
  /// Fastest where `at` grows from call to call.
  [[nodiscard]] bool written(const std::byte* at);

 private:
  struct Write {
    const std::byte *first, *last;
  };
  std::vector<Write> writes_;  // of any evaluation; in order after merge()
  std::size_t of_first_ = 0;   // how many of them are those of the first evaluation
  std::size_t next_ = 0;       // the first write that ends behind what was last asked for
  int evaluations_ = 0;
};

class ByteMarks : public Running {
 protected:
  ByteMarks(const Program& program, Memory& memory, CoreState& state, Unwritten unwritten)
      : Running(program, memory, state), unwritten_(unwritten) {}
  ~ByteMarks() = default;

  // The effect of a walk on the elements: it reads them and checks that they are defined, writes
  // and marks them all, or leaves both to the caller.
  enum class Touch : std::uint8_t { kRead, kWrite, kSome };
  struct RunPlace {  // bytes inside a region; row_start: where the row's tensor begins
    std::int64_t byte, count, step, row_start, row;
  };
  struct FoundUndefined {};  // thrown where an eval reads an undefined byte

  void touch(const TensorRef& ref, const Placement& place, Touch how, const RunPlace& run);
  void mark_written(const TensorRef& ref, const Placement& place, std::int64_t row,
                    std::int64_t first, std::int64_t count);
  [[nodiscard]] bool tracks_origin(Space space) const;
  // Writes change nothing but the bits of what was undefined.
  [[nodiscard]] bool marks_only_bits(Space space) const {
    return !tracks_origin(space) && log_ == nullptr && !memory_.any_sharing();
  }
  [[nodiscard]] std::uint32_t origin_of(const TensorRef& ref, const Placement& place,
                                        std::int64_t byte, std::int64_t row);

  Unwritten unwritten_;
  bool wrote_ = false;       // the instruction has begun to write
  WriteLog* log_ = nullptr;  // it is evaluated for what is undefined: nothing is checked or marked
};

}  // namespace nkisim::isa
