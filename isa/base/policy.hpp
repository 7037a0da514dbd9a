// What is done about broken rules in one run.
#pragma once

#include <string>
#include <vector>

#include "isa/base/error.hpp"
#include "isa/rules/rule.hpp"

namespace nkisim::isa {

/// What a user wants done about rules, by their ids: --suppress, --error, --unread, --strict.
struct RuleWishes {
  std::vector<std::string> suppress = {}, error = {};
  bool unread = false, strict = false;
  bool operator==(const RuleWishes&) const = default;
};

/// What each rule is under some wishes: off, a warning or an error.
class RulePolicy {
 public:
  RulePolicy() = default;
  /// Throws a usage Error for an id that is no rule's, and for the suppression of what is always an
  /// error.
  explicit RulePolicy(const RuleWishes& wishes);
  [[nodiscard]] Level of(Rule rule) const;
  /// The same of a finding that is a warning though its rule may be an error elsewhere.
  [[nodiscard]] Level of_warning(Rule rule) const;
  /// Whether any rule is on that only RuleInfo::unread turns on: they cost a look at all operands.
  [[nodiscard]] bool looks_for_unread() const;

 private:
  [[nodiscard]] Level normally(Rule rule) const;
  std::vector<Rule> suppressed_, errors_;
  bool unread_ = false, strict_ = false;
};

/// What a warning says, with the id of a rule that can be suppressed.
[[nodiscard]] std::string warning_text(const Error& warning);

}  // namespace nkisim::isa
