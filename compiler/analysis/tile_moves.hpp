// Tiles that become parts of larger ones: which can, where they go, and the change of their uses.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

class TileMoves {
 public:
  /// Where a tile is: in which tensor, from which byte of a partition on.
  struct Place {
    std::uint32_t tile = 0;
    std::int64_t offset = 0;
  };

  explicit TileMoves(isa::Program& program);
  /// Whether all uses can follow the tensor: none is in a list of operands or at a run-time
  /// address.
  [[nodiscard]] bool can_move(std::uint32_t tensor) const { return plain_[tensor]; }
  /// Whether an operand is all of its tensor.
  [[nodiscard]] bool is_whole(const isa::TensorRef& ref) const;
  void move(std::uint32_t tensor, Place to) { moved_[tensor] = to; }
  /// Where a tensor has gone; nullptr: it has not.
  [[nodiscard]] const Place* find(std::uint32_t tensor) const;
  /// Where an operand begins, moved or not.
  [[nodiscard]] Place place(const isa::TensorRef& ref) const;
  /// The operand there: `ref` itself if it has not moved.
  const isa::TensorRef* moved(const isa::TensorRef* ref);
  /// Changes the operands of all instructions that use what has moved.
  void apply();

 private:
  isa::Program& program_;
  std::vector<std::vector<std::uint32_t>> users_;  // by tensor: instructions
  std::vector<bool> plain_;
  std::map<std::uint32_t, Place> moved_;
};

}  // namespace nkisim::compiler
