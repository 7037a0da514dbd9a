// Declares RulePolicy, which says for one run which broken rules of nki.isa are errors, warnings or
// ignored.
#pragma once

#include <string>
#include <vector>

#include "isa/base/error.hpp"
#include "isa/rules/rule.hpp"

namespace nkisim::isa {

/// A user's choices by rule id: --suppress, --error, --unread, --strict. `warn`: errors that are
/// warnings in this run. `sdk`: --strict leaves out the rules of later releases.
struct RuleChoices {
  std::vector<std::string> suppress = {}, error = {};
  bool unread = false, strict = false;
  std::vector<std::string> warn = {};
  int sdk = 33;
  bool operator==(const RuleChoices&) const = default;
};

/// The level of each rule under a user's choices: off, a warning or an error.
class RulePolicy {
 public:
  RulePolicy() = default;
  /// Throws a usage Error for an id that is no rule's, and for the suppression of what is always an
  /// error.
  explicit RulePolicy(const RuleChoices& wishes);
  [[nodiscard]] Level of(Rule rule) const;
  /// The same of a finding that is a warning though its rule may be an error elsewhere.
  [[nodiscard]] Level of_warning(Rule rule) const;
  /// True if all that is left unread is asked for (RuleInfo::unread), and not only what is
  /// certainly a mistake.
  [[nodiscard]] bool looks_for_unread() const;
  /// True if a run without values, too, looks for results that are lost: a rule of them was chosen.
  [[nodiscard]] bool asks_for_lost() const;

 private:
  [[nodiscard]] Level normally(Rule rule) const;
  std::vector<Rule> suppressed_, errors_, warnings_;
  bool unread_ = false, strict_ = false;
  int sdk_ = 33;
};

/// The text of a warning, with the id of a rule that can be suppressed.
[[nodiscard]] std::string warning_text(const Error& warning);

}  // namespace nkisim::isa
