// Finds a rule that programs must keep by its id, with the usual cause and cure of breaking it.

#include "isa/rules/rule.hpp"

#include <algorithm>
#include <array>

namespace nkisim::isa {
namespace {

constexpr KindInfo kKinds[] = {
#define NKISIM_KIND(name, ...) {#name, __VA_ARGS__},
#include "isa/rules/kinds.def"
#undef NKISIM_KIND
};

constexpr RuleInfo kRules[] = {
#define NKISIM_RULE(name, of, text, ...) \
  {.id = #name, .kind = RuleKind::of, .meaning = text __VA_OPT__(, ) __VA_ARGS__},
#include "isa/rules/rules.def"
#undef NKISIM_RULE
};

constexpr Advice kAdvice[] = {
#define NKISIM_ADVICE(name, ...) {Rule::name, __VA_ARGS__},
#include "isa/rules/advice.def"
#undef NKISIM_ADVICE
};

}  // namespace

const Advice* advice(Rule rule) {
  const auto at = std::find_if(std::begin(kAdvice), std::end(kAdvice),
                               [rule](const Advice& a) { return a.rule == rule; });
  return at == std::end(kAdvice) ? nullptr : at;
}

std::span<const RuleInfo> all_rules() { return kRules; }
std::span<const KindInfo> all_kinds() { return kKinds; }

const KindInfo& info(RuleKind kind) { return kKinds[static_cast<std::size_t>(kind)]; }
const RuleInfo& info(Rule rule) { return kRules[static_cast<std::size_t>(rule)]; }

std::string_view cause(Rule rule) {
  const RuleInfo& r = info(rule);
  if (const Advice* own = advice(rule)) return own->cause;
  return r.cause.empty() ? info(r.kind).cause : r.cause;
}

std::string_view cure(Rule rule) {
  const RuleInfo& r = info(rule);
  if (const Advice* own = advice(rule)) return own->cure;
  return r.cure.empty() ? info(r.kind).cure : r.cure;
}

std::optional<Rule> find_rule(std::string_view id) {
  const auto at = std::find_if(std::begin(kRules), std::end(kRules),
                               [id](const RuleInfo& r) { return r.id == id; });
  if (at == std::end(kRules)) return std::nullopt;
  return static_cast<Rule>(at - std::begin(kRules));
}

}  // namespace nkisim::isa
