// Parses and formats the settings of the log (--log-level, NKISIM_LOG).

#include "src/log/settings.hpp"

#include <algorithm>
#include <cstdlib>

#include "isa/base/error.hpp"

namespace nkisim::log {
namespace {

constexpr std::array<std::string_view, kCategories> kCategoryNames = {
    "command", "compiler", "dispatch", "waits", "dma", "world", "evaluator"};
constexpr std::array<std::string_view, 6> kLevelNames = {"trace",   "debug", "info",
                                                         "warning", "error", "off"};

std::string joined(std::span<const std::string_view> words) {
  std::string out;
  for (const std::string_view word : words) out.append(out.empty() ? "" : ", ").append(word);
  return out;
}

template <typename Value>
std::optional<Value> find(std::span<const std::string_view> names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Value>(found - names.begin());
}

[[noreturn]] void refuse(std::string_view whence, std::string_view found,
                         const std::string& required) {
  throw isa::Error(isa::Rule::option_value, std::string(whence) + " is " + std::string(found) +
                                                "; " + required + " is required");
}

void apply_item(std::string_view item, std::string_view whence, Levels& levels) {
  const std::size_t equals = item.find('=');
  const std::string_view name = item.substr(equals == std::string_view::npos ? 0 : equals + 1);
  const std::optional<Level> level = find_level(name);
  if (!level) refuse(whence, "'" + std::string(item) + "'", joined(kLevelNames));
  if (equals == std::string_view::npos) {
    levels.fill(*level);
    return;
  }
  const std::optional<Category> category = find_category(item.substr(0, equals));
  if (!category) refuse(whence, "'" + std::string(item) + "'", "one of " + joined(kCategoryNames));
  levels[static_cast<std::size_t>(*category)] = *level;
}

}  // namespace

std::span<const std::string_view> category_names() { return kCategoryNames; }
std::span<const std::string_view> level_names() { return kLevelNames; }

std::optional<Category> find_category(std::string_view name) {
  return find<Category>(kCategoryNames, name);
}

std::optional<Level> find_level(std::string_view name) {
  return find<Level>(kLevelNames, name == "warn" ? "warning" : name);
}

Levels quiet_levels() {
  Levels levels;
  levels.fill(Level::kWarning);
  return levels;
}

Settings parse_settings(std::string_view text, std::string_view whence, Settings before) {
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    before.file = text.substr(colon + 1);
    if (before.file.empty()) refuse(whence, "'" + std::string(text) + "'", "a file after ':'");
  }
  std::string_view items = text.substr(0, colon);
  while (true) {
    const std::size_t comma = items.find(',');
    apply_item(items.substr(0, comma), whence, before.levels);
    if (comma == std::string_view::npos) return before;
    items.remove_prefix(comma + 1);
  }
}

Settings environment_settings() {
  const char* set = std::getenv("NKISIM_LOG");
  return set == nullptr || *set == '\0' ? Settings() : parse_settings(set, "NKISIM_LOG");
}

std::string format_settings(const Settings& settings) {
  std::string text;
  for (std::size_t r = 0; r < kCategories; ++r) {
    text.append(text.empty() ? "" : ",").append(kCategoryNames[r]).append("=");
    text += kLevelNames[static_cast<std::size_t>(settings.levels[r])];
  }
  return settings.file.empty() ? text : text + ":" + settings.file;
}

}  // namespace nkisim::log
