// Reads the links between chips and the collective algorithms of a machine description
// (configs/*.json).
#pragma once

#include "models/config.hpp"
#include "src/config/config_reader.hpp"

namespace nkisim {

[[nodiscard]] models::TopologyConfig parse_topology(ConfigReader in);
[[nodiscard]] models::CollectiveConfig parse_collectives(ConfigReader in);

}  // namespace nkisim
