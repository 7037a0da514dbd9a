// Reads machine descriptions (configs/*.json): inheritance, validation, a user's changes, and the
// plain structs that the models use.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/config.hpp"

namespace nkisim {

/// Names of the configs in the program: "inf2", "trn1", "trn2", "trn3".
[[nodiscard]] std::vector<std::string> config_names();

/// A built-in config by name (or by any name of its target), or a file by path, with "inherits"
/// resolved; a file without "topology" or "collectives" gets its target's. Throws isa::Error
/// (kBadInput) if there is no such config or it is not JSON.
[[nodiscard]] nlohmann::json load_config_json(const std::string& name_or_path);

/// Sets one value: apply_override(json, "dma.bytes_per_ns", "23"). Rules are addressed by id:
/// "rules.matmul.fixed". Throws isa::Error naming the path if there is nothing there to set.
void apply_override(nlohmann::json& config, std::string_view path, std::string_view value);

/// The structs of a resolved config. Unknown and missing keys and wrong types throw isa::Error with
/// the JSON pointer.
[[nodiscard]] models::Config parse_config(const nlohmann::json& config);
/// The same, with the file's name in front of the pointer.
[[nodiscard]] models::Config parse_config(const nlohmann::json& config, const std::string& file);

/// The overrides "path=value" that change what a program may hold. A program is recorded and read
/// with them.
[[nodiscard]] std::vector<std::string> size_overrides(const std::vector<std::string>& overrides);

/// configs/schema.json.
[[nodiscard]] std::string config_schema();

/// All of the above; each override reads "path=value".
[[nodiscard]] models::Config load_config(const std::string& name_or_path,
                                         const std::vector<std::string>& overrides = {});

}  // namespace nkisim
