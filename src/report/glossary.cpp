// Finds metrics of a run's summary, and rules that programs must keep, by name or by words.

#include "src/report/glossary.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "isa/base/stable_order.hpp"
#include "src/trace/trace_names.hpp"

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;

struct Placeholder {
  std::string_view text;
  std::vector<std::string_view> names;
};

const std::array<Placeholder, 3>& placeholders() {
  static const std::array<Placeholder, 3> kAll = {
      {{"{engine}", {"tensor", "vector", "scalar", "gpsimd", "sync"}},
       {"{dma}", {"static", "software_dynamic", "hardware_dynamic"}},
       {"{core}", {"nc0", "nc1"}}}};
  return kAll;
}

std::vector<std::string> names_of(std::string_view pattern) {
  for (const Placeholder& p : placeholders()) {
    const std::size_t at = pattern.find(p.text);
    if (at == std::string_view::npos) continue;
    std::vector<std::string> names;
    for (const std::string_view n : p.names) {
      names.push_back(std::string(pattern).replace(at, p.text.size(), n));
    }
    return names;
  }
  return {std::string(pattern)};
}

// The words of a text, in small letters.
std::set<std::string> set_of_words(std::string_view text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : std::string(text) + ' ') {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '_') {
      word += static_cast<char>(std::tolower(letter));
    } else if (!word.empty()) {
      words.insert(std::move(word));
      word.clear();
    }
  }
  return words;
}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> kAll = [] {
    std::vector<Metric> all;
    for (const MetricEntry& entry : metric_table()) {
      for (std::string& metric : names_of(entry.name)) all.push_back({std::move(metric), &entry});
    }
    return all;
  }();
  return kAll;
}

const Metric* find_metric(std::string_view name) {
  const auto& all = metrics();
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Metric& m) { return m.name == name; });
  return at == all.end() ? nullptr : &*at;
}

std::string near_metrics(std::string_view name) {
  constexpr std::size_t kShown = 3;
  std::vector<std::pair<std::size_t, std::string>> close;
  for (const Metric& m : metrics()) {
    std::size_t distance = edit_distance(name.substr(0, 64), m.name);
    if (m.name.find(name) != std::string::npos) distance = std::min<std::size_t>(distance, 3);
    if (distance <= std::max<std::size_t>(3, name.size() / 3)) close.emplace_back(distance, m.name);
  }
  isa::sort_stably(close, [](const auto& a, const auto& b) { return a.first < b.first; });
  if (close.empty()) return "; `nkisim explain` lists all";
  std::string names;
  for (std::size_t i = 0; i < std::min(close.size(), kShown); ++i) {
    names += (i == 0 ? "" : ", ") + close[i].second;
  }
  return "; did you mean " + names + "?";
}

const isa::KindInfo* find_kind(std::string_view name) {
  const auto all = isa::all_kinds();
  const auto at = std::find_if(all.begin(), all.end(),
                               [name](const isa::KindInfo& kind) { return kind.name == name; });
  return at == all.end() ? nullptr : &*at;
}

std::vector<isa::Rule> rules_of(const isa::KindInfo& kind) {
  std::vector<isa::Rule> rules;
  const auto all = isa::all_rules();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (&isa::info(all[i].kind) == &kind) rules.push_back(static_cast<isa::Rule>(i));
  }
  return rules;
}

std::vector<isa::Rule> rules_about(std::string_view words) {
  constexpr std::size_t kShown = 3;
  const auto all = isa::all_rules();
  std::vector<std::set<std::string>> texts;
  std::map<std::string, int> known;  // how many rules have a word
  for (const isa::RuleInfo& rule : all) {
    texts.push_back(set_of_words(std::string(rule.says) + " " + std::string(rule.meaning)));
    for (const std::string& word : texts.back()) ++known[word];
  }
  std::vector<std::pair<double, isa::Rule>> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    double common = 0;  // a word that few rules have distinguishes them
    for (const std::string& word : set_of_words(words)) {
      if (texts[i].contains(word)) common += 1.0 / known[word];
    }
    if (common > 0) found.emplace_back(common, static_cast<isa::Rule>(i));
  }
  isa::sort_stably(found, [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<isa::Rule> best;
  for (std::size_t i = 0; i < std::min(found.size(), kShown); ++i) best.push_back(found[i].second);
  return best;
}

Json to_json(const Metric& metric) {
  const MetricEntry& e = *metric.entry;
  return {{"metric", metric.name},
          {"unit", e.unit},
          {"meaning", e.meaning},
          {"how", e.how},
          {"source", e.source}};
}

Json to_json(const isa::KindInfo& kind) {
  Json rules = Json::array();
  for (const isa::Rule rule : rules_of(kind)) rules.push_back(isa::name(rule));
  return {{"kind", kind.name},
          {"meaning", kind.meaning},
          {"cause", kind.cause},
          {"fix", kind.cure},
          {"rules", rules}};
}

Json to_json(isa::Rule rule) {
  constexpr std::array<std::string_view, 3> kLevels = {"off", "warning", "error"};
  const isa::RuleInfo& r = isa::info(rule);
  Json j = {{"rule", r.id},
            {"kind", isa::info(r.kind).name},
            {"meaning", r.meaning},
            {"cause", isa::cause(rule)},
            {"fix", isa::cure(rule)},
            {"level", kLevels.at(static_cast<std::size_t>(r.normal))},
            {"strict", kLevels.at(static_cast<std::size_t>(r.strict))},
            {"values", r.values},
            {"says", r.says}};
  if (const isa::Advice* own = isa::advice(rule); own != nullptr && !own->wrong.empty()) {
    j["wrong"] = own->wrong;
    j["right"] = own->right;
  }
  if (r.from != 0) j["since"] = "2." + std::to_string(r.from);
  return j;
}

}  // namespace nkisim
