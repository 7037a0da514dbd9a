#include "src/report/glossary.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

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
  std::stable_sort(close.begin(), close.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (close.empty()) return "; `nkisim explain` lists all";
  std::string names;
  for (std::size_t i = 0; i < std::min(close.size(), kShown); ++i) {
    names += (i == 0 ? "" : ", ") + close[i].second;
  }
  return "; did you mean " + names + "?";
}

const ErrorEntry* find_error(std::string_view kind_or_message) {
  const auto all = error_table();
  for (const ErrorEntry& e : all) {
    if (e.kind == kind_or_message) return &e;
  }
  for (const ErrorEntry& e : all) {
    const bool matches = std::any_of(e.texts.begin(), e.texts.end(), [&](std::string_view text) {
      return kind_or_message.find(text) != std::string_view::npos;
    });
    if (matches) return &e;
  }
  return nullptr;
}

Json to_json(const Metric& metric) {
  const MetricEntry& e = *metric.entry;
  return {{"metric", metric.name},
          {"unit", e.unit},
          {"meaning", e.meaning},
          {"how", e.how},
          {"source", e.source}};
}

Json to_json(const ErrorEntry& error) {
  return {{"kind", error.kind},
          {"meaning", error.meaning},
          {"cause", error.cause},
          {"fix", error.fix},
          {"texts", error.texts}};
}

}  // namespace nkisim
