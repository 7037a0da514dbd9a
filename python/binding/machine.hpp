// Loads machine descriptions (configs/*.json) and machine sizes for the extension module's runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/config.hpp"

namespace nkisim::python {

/// Caches nkisim::load_config. A built-in description without overrides is read once per process:
/// reading one takes longer than a small kernel's run. Any thread may call it, without the
/// interpreter's lock too.
[[nodiscard]] std::shared_ptr<const models::Config> machine_description(
    const std::string& name_or_path, const std::vector<std::string>& overrides);

/// The sizes that a program for `target` may use: a config's machine, if it is of that target.
/// Raises for an unknown target; a config that cannot be read, or is of another target, is refused
/// by the run.
[[nodiscard]] isa::Machine machine_sizes(const std::string& target, const std::string& config,
                                         const std::vector<std::string>& overrides);

}  // namespace nkisim::python
