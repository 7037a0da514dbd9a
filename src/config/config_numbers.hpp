// Lists the numbers of the DMA section of a config, and sets one of them.
#pragma once

#include <string>
#include <vector>

#include "models/rates.hpp"

namespace nkisim {

/// A number as it is kept, with its path within the section: "software.dynamic_trigger".
struct ConfigNumber {
  std::string path;
  double value = 0;
};

/// Lists the numbers of the section and of its parts, always in the same order, without lists.
[[nodiscard]] std::vector<ConfigNumber> numbers(models::DmaRates rates);
void set_number(models::DmaRates& rates, const ConfigNumber& number);

}  // namespace nkisim
