// Makes tiles parts of larger tiles: it notes their new places and changes the operands that use
// them.
#pragma once

#include <cstdint>
#include <map>

#include "isa/program/uses.hpp"

namespace nkisim::compiler {

class TileMoves {
 public:
  /// The place of a tile: its tensor, and its first byte in a partition.
  struct Place {
    std::uint32_t tile = 0;
    std::int64_t offset = 0;
  };

  TileMoves(isa::Program& program, const isa::Uses& uses) : program_(program), uses_(uses) {}
  /// True if all uses can follow the tensor: none is in a list of operands or at a run-time
  /// address.
  [[nodiscard]] bool can_move(std::uint32_t tensor) const {
    return uses_.direct(tensor) && uses_.fixed(tensor);
  }
  void move(std::uint32_t tensor, Place to) { moved_[tensor] = to; }
  /// The new place of a tensor; nullptr: it has not moved.
  [[nodiscard]] const Place* find(std::uint32_t tensor) const;
  /// The place where an operand begins, moved or not.
  [[nodiscard]] Place place(const isa::TensorRef& ref) const;
  /// The operand there: `ref` itself if it has not moved.
  const isa::TensorRef* moved(const isa::TensorRef* ref);
  /// Changes the operands of all instructions that use what has moved.
  void apply();

 private:
  isa::Program& program_;
  const isa::Uses& uses_;  // as the program was
  std::map<std::uint32_t, Place> moved_;
};

}  // namespace nkisim::compiler
