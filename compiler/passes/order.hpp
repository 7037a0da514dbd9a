// An order that a program is given to see whether it is better, and can be taken back.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

class Order {
 public:
  /// `order[k]`: the instruction that becomes the k-th (Program::reorder).
  Order(isa::Program& program, const std::vector<std::uint32_t>& order)
      : program_(program), back_(order.size()) {
    program.reorder(order);
    for (std::uint32_t k = 0; k < order.size(); ++k) back_[order[k]] = k;
  }
  /// Back to the order before.
  void undo() const { program_.reorder(back_); }

 private:
  isa::Program& program_;
  std::vector<std::uint32_t> back_;
};

}  // namespace nkisim::compiler
