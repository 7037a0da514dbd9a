// Declares OperandPlaces, which finds where an operand's elements are, and reads and writes them
// as they are.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "isa/machine/byte_marks.hpp"
#include "isa/machine/scratch.hpp"

namespace nkisim::isa {

/// Applies dynamic offsets and checks run-time bounds. Rows are partitions (on chip) or the first
/// dimension (HBM); columns are the flattened rest.
class OperandPlaces : public ByteMarks, public Scratch {
 public:
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
  /// For each row of an operand scattered through an index tensor, an earlier row with the same
  /// index, -1 if there is none; empty where no index occurs twice.
  [[nodiscard]] std::vector<std::int64_t> repeated_rows(const TensorRef& ref);
  /// True if an operand's pattern reaches an element more than once.
  [[nodiscard]] bool comes_back(const TensorRef& ref);

  /// Operand as raw elements: columns * size_bytes(dtype) bytes per row.
  Tile<std::byte> load_raw(const TensorRef& ref);
  void store_raw(const TensorRef& ref, const Tile<std::byte>& values);
  /// As store_raw, but only the elements whose `mask` is not zero; others are not touched and not
  /// marked as defined.
  void store_raw_where(const TensorRef& ref, const Tile<std::byte>& values,
                       const Tile<std::uint8_t>& mask);
  /// dst = src, element for element, of the same dtype.
  void copy_raw(const TensorRef& dst, const TensorRef& src);
  /// Operand as integers, sign- or zero-extended to 32 bits.
  Tile<std::uint32_t> load_bits(const TensorRef& ref);
  void store_bits(const TensorRef& ref, const Tile<std::uint32_t>& values);

 protected:
  OperandPlaces(const Program& program, Memory& memory, CoreState& state, Unwritten unwritten)
      : ByteMarks(program, memory, state, unwritten), Scratch(memory) {}
  ~OperandPlaces() = default;

  struct Access;  // isa/machine/operand_walk.hpp
  Access access(const TensorRef& ref);
  template <typename Fn>
  void walk(const TensorRef& ref, Touch how, Fn&& fn);
  // The places of an operand's elements: their bytes, in element order; null where skipped.
  [[nodiscard]] std::vector<std::byte*> element_places(const TensorRef& ref);
  bool may_repeat(const TensorRef& ref);
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

  bool skip_out_of_bounds_ = false;
  std::vector<bool> skipped_;

 private:
  [[nodiscard]] std::int64_t offset_value(const DynamicOffset& d);
  std::vector<std::int64_t> indices(const TensorRef& ref, const DynamicOffset& d);
  // Warns once for each instruction.
  void say_cut_off(const TensorRef& ref, std::int64_t row, std::int64_t index);
};

}  // namespace nkisim::isa
