// What is done about broken rules: options of the commands that look at a program.
#pragma once

#include "isa/base/policy.hpp"
#include "src/cli/command.hpp"

namespace nkisim::cli {

/// Adds --suppress, --error and --unread.
void add_rule_options(boost::program_options::options_description& named);
/// What they say; rules may be given as lists with commas.
[[nodiscard]] isa::RuleWishes rule_wishes(const Args& args);

}  // namespace nkisim::cli
