// Formats the data races that were found as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "checks/races.hpp"

namespace nkisim {

/// One line per finding, located like any other error.
[[nodiscard]] std::vector<std::string> race_lines(const isa::Program& program,
                                                  const checks::RaceReport& report,
                                                  const isa::SemaphoreNames& names);
/// {"races": [...], "stuck": [...], "race_count", "unknown_addresses"}.
[[nodiscard]] nlohmann::ordered_json race_json(const isa::Program& program,
                                               const checks::RaceReport& report,
                                               const isa::SemaphoreNames& names);

}  // namespace nkisim
