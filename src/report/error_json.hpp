// Formats an error as JSON, for programs that read the output of nkisim.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "isa/base/error.hpp"

namespace nkisim {

/// {"code", "kind", "rule", "message", "text"} and, where known, "file", "line", "instruction",
/// "operand", "found", "required", "kernel_file", "kernel_line". `kind` and `rule` are of `nkisim
/// explain`.
[[nodiscard]] nlohmann::ordered_json error_json(const isa::Error& error);

/// The text with the rule's id behind it, "... [operand_size]", which `nkisim explain` takes.
[[nodiscard]] std::string text_with_rule(const isa::Error& error);

}  // namespace nkisim
