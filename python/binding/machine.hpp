// Machine descriptions for the extension module's runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/config.hpp"

namespace nkisim::python {

/// What nkisim::load_config gives. A built-in description without overrides is read once per
/// process: reading one takes longer than a small kernel's run. Any thread may call it, without the
/// interpreter's lock too.
[[nodiscard]] std::shared_ptr<const models::Config> machine_description(
    const std::string& name_or_path, const std::vector<std::string>& overrides);

}  // namespace nkisim::python
