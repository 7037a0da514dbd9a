// Declares the rules that programs and inputs must keep. Errors and warnings are identified by
// their rule instead of their words.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace nkisim::isa {

/// The kind of failure that an Error reports; the CLI maps it to an exit code.
enum class ErrorCode : std::uint8_t {
  kUsage,     // wrong command line: exit 2
  kBadInput,  // trace, config or data that breaks a rule: exit 3
  kInternal,  // our own bug: exit 4
};

/// The reaction to a broken rule.
enum class Level : std::uint8_t { kOff, kWarning, kError };

/// Kinds of rules: kinds.def.
enum class RuleKind : std::uint8_t {
#define NKISIM_KIND(name, ...) name,
#include "isa/rules/kinds.def"
#undef NKISIM_KIND
};

/// The rules by their ids, as --json, --suppress and the documents spell them: rules.def.
enum class Rule : std::uint16_t {
#define NKISIM_RULE(id, ...) id,
#include "isa/rules/rules.def"
#undef NKISIM_RULE
};

struct KindInfo {
  std::string_view name, meaning, cause, cure;
};

struct RuleInfo {
  std::string_view id;
  RuleKind kind;
  std::string_view meaning;
  std::string_view says = {};  // examples of how messages read, one a line
  ErrorCode code = ErrorCode::kBadInput;
  Level normal = Level::kError, strict = normal;
  bool unread = false;  // on where somebody asks for what is left unread (RulePolicy)
  bool values =
      false;     // whether it is broken may depend on values, which check and --timing-only lack
  int from = 0;  // SDK 2.from is the first whose documents have it; 0: all
  std::string_view cause = {}, cure = {};  // empty: those of its kind
};

[[nodiscard]] const KindInfo& info(RuleKind kind);
[[nodiscard]] const RuleInfo& info(Rule rule);
[[nodiscard]] inline std::string_view name(Rule rule) { return info(rule).id; }
/// The texts about one rule next to its meaning: advice.def.
struct Advice {
  Rule rule;
  std::string_view cause, cure;
  std::string_view wrong, right;  // lines of a kernel that break it and that do not; may be empty
};
/// Null where the rule has only what its kind says.
[[nodiscard]] const Advice* advice(Rule rule);
/// The rule's own texts, else its kind's.
[[nodiscard]] std::string_view cause(Rule rule);
[[nodiscard]] std::string_view cure(Rule rule);
/// All of them, in the order of rules.def and kinds.def: the enumerators are their indices.
[[nodiscard]] std::span<const RuleInfo> all_rules();
[[nodiscard]] std::span<const KindInfo> all_kinds();
[[nodiscard]] std::optional<Rule> find_rule(std::string_view id);

}  // namespace nkisim::isa
