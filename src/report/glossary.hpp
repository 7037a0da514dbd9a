// What the metrics of a summary and the errors of nkisim mean: one table each.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nkisim {

/// A metric of the summary. `name` may hold {engine}, {dma} or {core}, which stand for several.
struct MetricEntry {
  std::string_view name;
  std::string_view unit;     // s, ns, fraction, bytes, count, flops, cycles, flops/byte, text
  std::string_view meaning;  // AWS's definition, shortened
  std::string_view how;      // how nkisim obtains it
  std::string_view source;   // where the name comes from
};

/// A kind of error: every message of the library holds one of `texts`, tried in table order.
struct ErrorEntry {
  std::string_view kind;
  std::vector<std::string_view> texts;
  std::string_view meaning, cause, fix;
};

/// The metric with its own name in place of {engine}, {dma} and {core}.
struct Metric {
  std::string name;
  const MetricEntry* entry = nullptr;
};

[[nodiscard]] std::span<const MetricEntry> metric_table();
[[nodiscard]] std::span<const ErrorEntry> error_table();
/// Every metric a summary can have, in the order of the table.
[[nodiscard]] const std::vector<Metric>& metrics();
/// Null if there is no such metric.
[[nodiscard]] const Metric* find_metric(std::string_view name);
/// Known metrics close to `name`, best first, at most three: "; did you mean A, B?", or where all
/// are listed.
[[nodiscard]] std::string near_metrics(std::string_view name);
/// The kind of an error by its name, or of a whole message; null if neither.
[[nodiscard]] const ErrorEntry* find_error(std::string_view kind_or_message);

[[nodiscard]] nlohmann::ordered_json to_json(const Metric& metric);
[[nodiscard]] nlohmann::ordered_json to_json(const ErrorEntry& error);

}  // namespace nkisim
