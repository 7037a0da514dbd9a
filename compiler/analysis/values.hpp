// Value numbering: finds tensors that certainly hold the same bytes, before anything has run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// Numbers the contents that tensors have from write to write. Equal numbers: equal bytes, whatever
/// the inputs; an unknown content gets a number of its own. A content is the sequence of the
/// instructions that made it since the last that overwrote the whole tensor, each with its
/// constants, the bytes that it wrote and the contents that it read. The engine that triggers a
/// transfer does not count. For programs without control flow and explicit semaphores.
class Values {
 public:
  /// Numbers of a content and of the longest chain of instructions that led to it.
  struct Value {
    std::uint32_t number = 0, depth = 0;
  };
  /// As before the first instruction; the caller shows it the instructions, in their order.
  /// `placed` as for Hazards: what has its address shares its bytes with others.
  Values(const isa::Program& program, const std::vector<bool>& placed);
  /// All of a program. nc_transpose counts as unknown: the legacy compiler makes the transposes of
  /// nl.matmul after it looked for what repeats (docs/compiler.md).
  static Values of(const isa::Program& program, const std::vector<bool>& placed);

  /// Numbers what an instruction leaves. True if it is pure: it writes one on-chip tensor and
  /// depends on nothing but its operands' contents; else what it writes is like nothing else.
  bool number(const isa::Inst& inst);
  /// Takes what an instruction leaves for something like nothing else.
  void forget(const isa::Inst& inst);
  /// Takes what a tensor holds for something like nothing else.
  void renew(std::uint32_t t) { now_[t] = {next_++, 0}; }
  /// The present value of tensor `t`, by its id.
  [[nodiscard]] const Value& last(std::uint32_t t) const { return now_[t]; }
  /// True if the i-th instruction was pure.
  [[nodiscard]] bool pure(std::uint32_t i) const { return pure_[i]; }

 private:
  using Key = std::vector<std::int64_t>;
  struct Slot {  // of a table of keys, which lie in bytes_
    std::uint64_t hash = 0;
    std::size_t begin = 0;
    std::uint32_t size = 0;  // 0: free
    std::uint32_t number = 0;
  };
  void begin();
  bool make_key(const isa::Inst& inst);
  bool add_argument(const isa::Arg& given, const isa::Param& param);
  void add_operand(const isa::TensorRef& ref, const isa::Param& param);
  void add_shape(const isa::TensorRef& ref);
  void write(const isa::Inst& inst);
  [[nodiscard]] bool overwrites(const isa::Inst& inst) const;
  [[nodiscard]] bool shares_bytes(const isa::TensorRef& ref) const;
  std::uint32_t number_of(std::span<const std::int64_t> key);
  [[nodiscard]] Slot& slot_of(std::uint64_t hash, std::span<const std::uint8_t> key);
  void widen();

  const isa::Program* program_;
  std::vector<bool> placed_;
  std::vector<Value> now_, untouched_;  // by tensor
  std::uint32_t placed_bytes_ = 0;      // number of what all tensors with an address hold
  std::vector<bool> pure_;              // by instruction
  std::vector<Slot> slots_;             // open addressing; at most half full
  std::size_t keys_ = 0;
  std::vector<std::uint8_t> bytes_;
  std::vector<std::uint8_t> packed_;  // the key at hand, as bytes_ has it
  std::uint32_t next_ = 0;
  Key key_;                             // of the instruction at hand
  const isa::Param* output_ = nullptr;  // of result_
  const isa::TensorRef* result_ = nullptr;
  std::uint32_t depth_ = 0;
};

}  // namespace nkisim::compiler
