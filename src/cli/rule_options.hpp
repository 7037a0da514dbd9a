// Reads the options that make broken rules errors, warnings or neither, for commands that check a
// program.
#pragma once

#include "isa/base/policy.hpp"
#include "src/cli/command.hpp"

namespace nkisim::cli {

/// The user's choices; rules may be given as lists with commas.
[[nodiscard]] isa::RuleChoices rule_choices(const Args& args);

}  // namespace nkisim::cli
