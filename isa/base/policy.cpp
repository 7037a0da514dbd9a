// Decides for each rule of nki.isa if breaking it is an error, a warning or allowed in a run.

#include "isa/base/policy.hpp"

#include <algorithm>

namespace nkisim::isa {
namespace {

Rule rule_of(std::string_view option, const std::string& id) {
  const auto rule = find_rule(id);
  if (!rule) fail(Rule::option_value, option, id, "a rule that nkisim explain lists");
  return *rule;
}

bool among(const std::vector<Rule>& rules, Rule rule) {
  return std::find(rules.begin(), rules.end(), rule) != rules.end();
}

}  // namespace

RulePolicy::RulePolicy(const RuleChoices& wishes)
    : unread_(wishes.unread), strict_(wishes.strict), sdk_(wishes.sdk) {
  for (const std::string& id : wishes.suppress) {
    const Rule rule = rule_of("suppress", id);
    if (info(rule).normal == Level::kError) {
      fail(Rule::option_value, "suppress", id + ", which is an error", "a rule that is a warning");
    }
    suppressed_.push_back(rule);
  }
  for (const std::string& id : wishes.error) errors_.push_back(rule_of("error", id));
  for (const std::string& id : wishes.warn) warnings_.push_back(rule_of("warn", id));
}

Level RulePolicy::normally(Rule rule) const {
  const RuleInfo& r = info(rule);
  Level level = strict_ && sdk_ >= r.from ? r.strict : r.normal;
  if (among(warnings_, rule)) level = std::min(level, Level::kWarning);
  return unread_ && r.unread ? std::max(level, Level::kWarning) : level;
}

Level RulePolicy::of(Rule rule) const {
  if (among(errors_, rule)) return Level::kError;
  return among(suppressed_, rule) ? Level::kOff : normally(rule);
}

Level RulePolicy::of_warning(Rule rule) const {
  const Level level = of(rule);
  return level == Level::kError && !among(errors_, rule) && info(rule).normal == Level::kError
             ? Level::kWarning
             : level;
}

bool RulePolicy::looks_for_unread() const {
  const auto rules = all_rules();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (!rules[i].unread) continue;
    const Level level = of(static_cast<Rule>(i));
    if (level != Level::kOff && (unread_ || strict_ || level != rules[i].normal)) return true;
  }
  return false;
}

bool RulePolicy::asks_for_lost() const {
  return looks_for_unread() || among(errors_, Rule::result_lost);
}

std::string warning_text(const Error& warning) {
  const RuleInfo& rule = info(warning.rule());
  const bool suppressible = rule.normal != Level::kError;
  return std::string(warning.what()) + (suppressible ? " [" + std::string(rule.id) + "]" : "");
}

}  // namespace nkisim::isa
