// What is done about broken rules: options of the commands that look at a program.
#pragma once

#include "isa/base/policy.hpp"
#include "src/cli/command.hpp"

namespace nkisim::cli {

/// What they say; rules may be given as lists with commas.
[[nodiscard]] isa::RuleWishes rule_wishes(const Args& args);

}  // namespace nkisim::cli
