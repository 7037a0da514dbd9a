// Gives the meaning of the metrics of a run's summary, and of the rules that programs must keep.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isa/rules/rule.hpp"

namespace nkisim {

/// A metric of the summary. `name` may hold {engine}, {dma} or {core}, which stand for several.
struct MetricEntry {
  std::string_view name;
  std::string_view unit;     // s, ns, fraction, bytes, count, flops, cycles, flops/byte, text
  std::string_view meaning;  // AWS's definition, shortened
  std::string_view how;      // how nkisim obtains it
  std::string_view source;   // where the name comes from
};

/// The metric with its own name in place of {engine}, {dma} and {core}.
struct Metric {
  std::string name;
  const MetricEntry* entry = nullptr;
};

[[nodiscard]] std::span<const MetricEntry> metric_table();
/// Every metric a summary can have, in the order of the table.
[[nodiscard]] const std::vector<Metric>& metrics();
/// Null if there is no such metric.
[[nodiscard]] const Metric* find_metric(std::string_view name);
/// Known metrics close to `name`, best first, at most three: "; did you mean A, B?", or where all
/// are listed.
[[nodiscard]] std::string near_metrics(std::string_view name);
/// The kind of rules of this name; null if there is none.
[[nodiscard]] const isa::KindInfo* find_kind(std::string_view name);
/// The rules of a kind, in the order of the table.
[[nodiscard]] std::vector<isa::Rule> rules_of(const isa::KindInfo& kind);
/// The rules whose texts have most in common with some words, as of a message; at most three.
[[nodiscard]] std::vector<isa::Rule> rules_about(std::string_view words);

[[nodiscard]] nlohmann::ordered_json to_json(const Metric& metric);
[[nodiscard]] nlohmann::ordered_json to_json(const isa::KindInfo& kind);
[[nodiscard]] nlohmann::ordered_json to_json(isa::Rule rule);

}  // namespace nkisim
