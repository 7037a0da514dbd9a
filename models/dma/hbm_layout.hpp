// Assigns assumed addresses to tensors in HBM, for HBM models of another SystemC design.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::models {

/// One tensor after the other, as the program declares them, each at the start of a page: a
/// device's own allocator is not known.
class HbmLayout {
 public:
  HbmLayout() = default;
  explicit HbmLayout(const isa::Program& program);
  /// The place of byte `offset` that a transfer reads or writes in HBM, taken to be in one piece.
  [[nodiscard]] std::uint64_t address(const isa::Inst& inst, bool written,
                                      std::int64_t offset) const;

 private:
  std::vector<std::int64_t> starts_;  // by tensor
};

}  // namespace nkisim::models
