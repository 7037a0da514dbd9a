// Lists the bytes that each instruction touches, in flat arrays. Compiler passes that look at all
// of them read a word per operand instead of its arguments, patterns and tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isa/program/footprint.hpp"

namespace nkisim::isa {

/// One operand, as for_each_tensor names it, in a word.
class Operand {
 public:
  enum Flag : std::uint32_t {
    kWrite = 1U << 27U,    // written
    kKeeps = 1U << 28U,    // written and read (ParamKind::kInOut)
    kWhole = 1U << 29U,    // reaches_all()
    kDynamic = 1U << 30U,  // its address has parts known at run time only
    kPart = 1U << 31U,     // of a list of operands, or an index: no argument of its own
  };
  static constexpr std::uint32_t kTensors = kWrite;     // how many can be distinguished,
  static constexpr std::uint32_t kReaches = 1U << 30U;  // and how many reaches
  Operand(std::uint32_t tensor, std::uint32_t reach, Space space, std::uint32_t flags)
      : tensor_(tensor | flags), reach_(reach | static_cast<std::uint32_t>(space) << 30U) {}
  [[nodiscard]] std::uint32_t tensor() const { return tensor_ & (kTensors - 1); }
  [[nodiscard]] std::uint32_t reach() const { return reach_ & (kReaches - 1); }
  [[nodiscard]] Space space() const { return static_cast<Space>(reach_ >> 30U); }
  [[nodiscard]] bool on_chip() const { return space() != Space::kHbm; }
  [[nodiscard]] bool is(Flag flag) const { return (tensor_ & flag) != 0; }
  [[nodiscard]] bool write() const { return is(kWrite); }

 private:
  std::uint32_t tensor_, reach_;
};

/// The operands of all instructions, as they were when they were looked for, with the bytes that
/// each reaches before anything has run (static_footprint).
class Operands {
 public:
  /// Bytes from the tensor's start, addresses aside; equal ones are kept once.
  struct Reach {
    std::int64_t first = 0, last = 0;
    std::int32_t partition = 0, partition_end = 1;
    std::uint32_t gaps = kNone;  // of what has gaps: footprint()
    [[nodiscard]] bool dense() const { return gaps == kNone; }
  };

  /// Throws std::length_error if there are more than an Operand can name.
  explicit Operands(const Program& program);
  /// The operands of instruction `i`, in the order of for_each_tensor.
  [[nodiscard]] std::span<const Operand> of(std::size_t i) const {
    return {operands_.data() + rows_[i].begin, rows_[i].count};
  }
  [[nodiscard]] const Reach& reach(const Operand& operand) const {
    return reaches_[operand.reach()];
  }
  /// All of a reach that is not dense, `base` being its tensor's address.
  [[nodiscard]] Footprint footprint(const Reach& reach, std::int64_t base) const;
  /// Tensor::extent_bytes().
  [[nodiscard]] std::int64_t bytes(std::uint32_t tensor) const { return bytes_[tensor]; }
  [[nodiscard]] std::size_t tensors() const { return bytes_.size(); }
  [[nodiscard]] std::size_t instructions() const { return rows_.size(); }
  /// As after Program::reorder.
  void reorder(std::span<const std::uint32_t> order);

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  struct Row {
    std::uint32_t begin = 0, count = 0;
  };
  struct Interner;
  std::vector<Operand> operands_;  // instruction by instruction
  std::vector<Row> rows_;          // by instruction
  std::vector<Reach> reaches_;
  std::vector<Footprint> gaps_;
  std::vector<std::int64_t> bytes_;  // by tensor
};

}  // namespace nkisim::isa
