// Declares the settings of the log: categories, levels and destination, from --log-level and
// NKISIM_LOG.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nkisim::log {

enum class Level : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError, kOff };

/// The source of a line; docs/log.md has its lines at each level.
enum class Category : std::uint8_t {
  kCommand,
  kCompiler,
  kDispatch,
  kWaits,
  kDma,
  kWorld,
  kEvaluator
};
inline constexpr std::size_t kCategories = 7;

/// By number of the category and of the level.
[[nodiscard]] std::span<const std::string_view> category_names();
[[nodiscard]] std::span<const std::string_view> level_names();
[[nodiscard]] std::optional<Category> find_category(std::string_view name);
/// "warn" is "warning".
[[nodiscard]] std::optional<Level> find_level(std::string_view name);

using Levels = std::array<Level, kCategories>;
/// Warnings and errors alone.
[[nodiscard]] Levels quiet_levels();

struct Settings {
  Levels levels = quiet_levels();  // the lowest that is said
  std::string file;                // empty: standard error
};

/// Reads LEVEL, CATEGORY=LEVEL or several of them with commas between, and behind a colon a file:
/// "debug", "compiler=debug,world=info:run.log". What is not named stays as it is in `before`.
/// Throws a usage Error that begins with `whence`.
[[nodiscard]] Settings parse_settings(std::string_view text, std::string_view whence,
                                      Settings before = {});

/// The settings of NKISIM_LOG.
[[nodiscard]] Settings environment_settings();
/// As text that parse_settings reads.
[[nodiscard]] std::string format_settings(const Settings& settings);

}  // namespace nkisim::log
