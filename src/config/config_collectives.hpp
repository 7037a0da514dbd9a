// Parses the topology and collectives of a config from JSON to structs.
#pragma once

#include "models/config.hpp"
#include "src/config/config_reader.hpp"

namespace nkisim {

[[nodiscard]] models::TopologyConfig parse_topology(ConfigReader in);
[[nodiscard]] models::CollectiveConfig parse_collectives(ConfigReader in);

}  // namespace nkisim
