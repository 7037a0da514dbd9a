// Declares Blocks: the loops and branches of a program, while its instructions are added.
#pragma once

#include <vector>

#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

class Blocks {
 public:
  /// The next instruction of its core. Throws Error if it closes what is not open, or writes the
  /// register of an open loop.
  void track(const OpSpec& op, const Inst& inst);
  /// The op of a block that is still open; null if there is none.
  [[nodiscard]] const OpSpec* open() const;

 private:
  void check_loop_registers(const OpSpec& op, const Inst& inst) const;
  struct Block {
    const OpSpec* op;
    std::int64_t loop_register;  // that counts a loop; -1 for any other block
  };
  std::vector<std::vector<Block>> open_;  // per core
};

}  // namespace nkisim::isa
