// Changes the instruction order of a program, and can undo the change if it is no better.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

class Order {
 public:
  /// `order[k]`: the instruction that becomes the k-th (Program::reorder).
  Order(Unit& unit, const std::vector<std::uint32_t>& order) : unit_(unit), back_(order.size()) {
    unit.reorder(order);
    for (std::uint32_t k = 0; k < order.size(); ++k) back_[order[k]] = k;
  }
  /// Back to the order before.
  void undo() const { unit_.reorder(back_); }

 private:
  Unit& unit_;
  std::vector<std::uint32_t> back_;
};

}  // namespace nkisim::compiler
