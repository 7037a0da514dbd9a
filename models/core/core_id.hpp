// Identifies a core by rank and number. This order also decides between events of one instant.
#pragma once

#include <compare>
#include <string>

namespace nkisim::models {

struct CoreId {
  int rank = 0, core = 0;
  auto operator<=>(const CoreId&) const = default;
  /// As in hierarchical names.
  [[nodiscard]] std::string name() const {
    return "rank" + std::to_string(rank) + ".nc" + std::to_string(core);
  }
};

}  // namespace nkisim::models
