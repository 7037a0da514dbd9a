// Declares EvalContext::Replay. It evaluates an instruction several times with other values for its
// undefined (never-written) input bytes. Only eval_undefined.cpp and replay.cpp use it.
#pragma once

#include "isa/machine/eval.hpp"
#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

/// The value of a reduce register's undefined lane in evaluation `fill`.
[[nodiscard]] float undefined_lane(int fill, std::size_t lane);

/// The rows and elements that are undefined in operands of some width.
class Reaches {
 public:
  /// The undefined elements of a stretch of a row.
  struct Hit {
    bool all = false;
    const std::uint8_t* elements = nullptr;  // else per element; null: none
    [[nodiscard]] bool none() const { return !all && elements == nullptr; }
    [[nodiscard]] bool at(std::int64_t i) const {
      return all || (elements != nullptr && elements[i] != 0);
    }
  };
  /// Elements `first` to `first + count` of a row are undefined in an operand of that shape.
  void note(std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t first,
            std::int64_t count);
  /// The elements from `column` on of a row of `columns`; `by_row`: all if any of the row is.
  [[nodiscard]] Hit hit(std::int64_t row, std::int64_t column, std::int64_t columns,
                        bool by_row) const;
  [[nodiscard]] bool empty() const { return of_width_.empty(); }

 private:
  struct OfWidth {
    std::int64_t columns;
    std::vector<std::uint8_t> rows, elements;
  };
  std::vector<OfWidth> of_width_;
};

struct EvalContext::Replay {
  /// Evenly spaced undefined elements of an operand.
  struct Holes {
    std::byte* data;
    std::int64_t count, step;
    Dtype dtype;          // of MX scales kFloat8E8m0fnu
    bool stored;          // an instruction computed their values
    std::uint64_t where;  // of the first on the device, whatever the host's addresses
    std::size_t saved;    // where their bytes are in `hole_bytes`
  };
  /// Evenly spaced elements of a row that may be written.
  struct Piece {
    const TensorRef* ref;
    std::byte* data;
    Placement place;
    std::int64_t count, step, size, row, column, columns;
    std::size_t saved;  // where their bytes are in a copy
    [[nodiscard]] Reaches::Hit hit(const Reaches& of, bool by_row) const {
      return of.hit(row, column, columns, by_row);
    }
  };

  static constexpr int kFills = 12;    // evaluations: 0 is what stays
  static constexpr int kFinite = 5;    // ... where the others are of finite values
  static constexpr int kInverse = -1;  // every bit other than in evaluation 0

  OpSpec::Depends depends = OpSpec::Depends::kAll;
  OpSpec::Undefined spread = OpSpec::Undefined::kNone;
  std::vector<Holes> holes;
  std::vector<std::byte> hole_bytes;  // as they were
  std::vector<Piece> pieces;
  std::size_t piece_bytes = 0;
  bool finite = false;  // all evaluations but 0 are of finite values
  const Inst* running = nullptr;
  const Param* param = nullptr;                       // of the operand being collected
  Reaches selects;                                    // of operands that select
  Reaches reach;                                      // of operands that are read
  WriteLog writes;                                    // of any evaluation
  std::vector<std::byte> before, actual, zeros, now;  // zeros: evaluation 1, if they are finite
  std::vector<std::byte> differs;  // bits of `actual` that differ in some evaluation
  CoreState state, state_actual;
  std::bitset<kPartitions> vector_differs, scalar_differs;
  Parcel parcel;
  const Parcel* received = nullptr;
  std::uint32_t origin = 0;       // of the first hole
  std::uint32_t last_origin = 0;  // of the last
  bool unsure = false;            // an evaluation failed: everything it writes is undefined

  /// Undefined elements of an operand's run: those with values that an instruction computed apart
  /// from unwritten ones.
  void collect_holes(EvalContext& context, const TensorRef& ref, const Placement& place,
                     const Run& run, std::int64_t first, std::int64_t count);
  /// Evaluates with the values of evaluation `fill`. False if they are not taken: then everything
  /// that the instruction writes is undefined.
  bool evaluate(EvalContext& context, const Inst& inst, int fill);
  /// Marks every element written, or that may be, as what it is; undefined ones come from `cause`.
  void mark(EvalContext& context, std::uint32_t cause);
  /// Puts the values of evaluation `fill` (or kInverse) where nothing is defined.
  void fill_holes(int fill) const;
  void fill_parcel(int fill);
  void put_back() const;
  void copy_to(std::vector<std::byte>& bytes) const;
  void restore(const std::vector<std::byte>& bytes) const;
  void compare();
  /// Gives elements that are the same for all finite values, but not for NaN, their value for
  /// zeros. Returns whether there are any.
  bool keep_finite();
  [[nodiscard]] static bool any_bit(const std::byte* element, std::int64_t size);
  /// The elements that are undefined whatever the evaluations say.
  [[nodiscard]] Reaches::Hit spread_over(const Piece& piece) const;
  /// True if all elements that could depend on an undefined one are known to depend on it.
  [[nodiscard]] bool settled() const;
};

}  // namespace nkisim::isa
