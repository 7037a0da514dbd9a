// Options for broken rules, of the commands that look at a program.
#pragma once

#include "isa/base/policy.hpp"
#include "src/cli/command.hpp"

namespace nkisim::cli {

/// The user's choices; rules may be given as lists with commas.
[[nodiscard]] isa::RuleWishes rule_wishes(const Args& args);

}  // namespace nkisim::cli
