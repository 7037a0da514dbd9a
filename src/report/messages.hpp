// Finds the rule (a named constraint on programs) that an error message is about.
#pragma once

#include <optional>
#include <string_view>

#include "isa/rules/rule.hpp"

namespace nkisim {

/// The rule whose id a message shows in brackets, "... [operand_size]"; else the one whose own
/// messages read like it (messages.def). None where no rule's do.
[[nodiscard]] std::optional<isa::Rule> rule_of_message(std::string_view message);

}  // namespace nkisim
