// Reads device profiles of neuron-profile, which commands compare with or import.
#pragma once

#include <string>

#include "src/device_profile/device_profile.hpp"

namespace nkisim::cli {

/// The profile in a JSON file (gzip too), or in a folder with the Parquet tables of Neuron Explorer
/// (schema 7.4.0), which the Python package reads. Throws Error.
[[nodiscard]] HwProfile read_profile_input(const std::string& path);

}  // namespace nkisim::cli
