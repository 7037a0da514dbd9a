// Loads a machine description (configs/*.json) with a caller's changes, for runs from Python.

#include "python/binding/machine.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "isa/base/error.hpp"
#include "src/config/config.hpp"

namespace nkisim::python {

std::shared_ptr<const models::Config> machine_description(
    const std::string& name_or_path, const std::vector<std::string>& overrides) {
  static const std::vector<std::string> kBuiltIn = nkisim::config_names();
  if (!overrides.empty() ||
      std::find(kBuiltIn.begin(), kBuiltIn.end(), name_or_path) == kBuiltIn.end()) {
    return std::make_shared<const models::Config>(nkisim::load_config(name_or_path, overrides));
  }
  static std::mutex lock;
  static std::map<std::string, std::shared_ptr<const models::Config>> read;
  const std::lock_guard guard(lock);
  const auto known = read.find(name_or_path);
  if (known != read.end()) return known->second;
  auto made = std::make_shared<const models::Config>(nkisim::load_config(name_or_path));
  return read.emplace(name_or_path, std::move(made)).first->second;
}

isa::Machine machine_sizes(const std::string& target, const std::string& config,
                           const std::vector<std::string>& overrides) {
  const auto of_target = isa::find_machine(target);
  if (!of_target) isa::fail(isa::Rule::trace_target, "target", target, isa::known_targets());
  const std::vector<std::string> changes = nkisim::size_overrides(overrides);
  if (config.empty() && changes.empty()) return *of_target;
  try {
    const isa::Machine found =
        machine_description(config.empty() ? target : config, changes)->machine;
    return found.target == of_target->target ? found : *of_target;
  } catch (const isa::Error&) {
    return *of_target;
  }
}

}  // namespace nkisim::python
