// Formats a number with a fixed count of decimals, for lines that reports print.
#pragma once

#include <iomanip>
#include <sstream>
#include <string>

namespace nkisim {

/// "12.50" of (12.5, 2).
[[nodiscard]] inline std::string fixed(double value, int digits) {
  std::ostringstream s;
  s << std::fixed << std::setprecision(digits) << value;
  return s.str();
}

}  // namespace nkisim
