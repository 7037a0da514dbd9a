#include "python/binding/machine.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "src/config/config.hpp"

namespace nkisim::python {

models::Config machine_description(const std::string& name_or_path,
                                   const std::vector<std::string>& overrides) {
  static const std::vector<std::string> kBuiltIn = nkisim::config_names();
  if (!overrides.empty() ||
      std::find(kBuiltIn.begin(), kBuiltIn.end(), name_or_path) == kBuiltIn.end()) {
    return nkisim::load_config(name_or_path, overrides);
  }
  static std::mutex lock;
  static std::map<std::string, models::Config> read;
  const std::lock_guard guard(lock);
  const auto known = read.find(name_or_path);
  if (known != read.end()) return known->second;
  return read.emplace(name_or_path, nkisim::load_config(name_or_path)).first->second;
}

}  // namespace nkisim::python
