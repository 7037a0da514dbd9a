// Compares metrics of a run with a user's limits, and writes JUnit XML.

#include "src/report/budget.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "isa/base/error.hpp"
#include "isa/base/real.hpp"
#include "src/report/glossary.hpp"

namespace nkisim {
namespace {

using Json = nlohmann::ordered_json;

struct Unit {
  std::string_view of;    // the metric's unit
  std::string_view name;  // as written
  double factor;          // into the metric's unit
  bool decimal = false;   // accepted, not shown
};

constexpr std::array<Unit, 22> kUnits = {{
    {"s", "ns", 1e-9},
    {"s", "us", 1e-6},
    {"s", "ms", 1e-3},
    {"s", "s", 1},
    {"ns", "ns", 1},
    {"ns", "us", 1e3},
    {"ns", "ms", 1e6},
    {"ns", "s", 1e9},
    {"fraction", "%", 0.01},
    {"bytes", "", 1},
    {"bytes", "B", 1},
    {"bytes", "KB", 1e3, true},
    {"bytes", "MB", 1e6, true},
    {"bytes", "GB", 1e9, true},
    {"bytes", "KiB", 1024},
    {"bytes", "MiB", 1048576},
    {"bytes", "GiB", 1073741824},
    {"count", "", 1},
    {"cycles", "", 1},
    {"flops", "", 1},
    {"flops", "GFLOP", 1e9},
    {"flops/byte", "", 1},
}};

[[noreturn]] void refuse(const std::string& message) {
  throw isa::Error(isa::Rule::budget, message);
}

std::string units_of(std::string_view metric_unit) {
  std::string list;
  for (const Unit& u : kUnits) {
    if (u.of != metric_unit) continue;
    const std::string name = u.name.empty() ? "no unit" : std::string(u.name);
    list += (list.empty() ? "" : ", ") + name;
  }
  return list;
}

const Metric& metric_of(const Budget& b) {
  const Metric* metric = find_metric(b.metric);
  if (metric == nullptr) {
    refuse("--budget " + b.text + ": unknown metric '" + b.metric + "'" + near_metrics(b.metric));
  }
  if (metric->entry->unit == "text") refuse("--budget " + b.text + ": the metric is not a number");
  return *metric;
}

double limit_of(const Budget& b, std::string_view amount, const MetricEntry& entry) {
  double number = 0;
  const auto [end, error] = isa::read_real(amount.data(), amount.data() + amount.size(), number);
  if (error != std::errc{})
    refuse("--budget " + b.text + ": a number is required after " + b.comparison);
  const std::string_view written(end,
                                 static_cast<std::size_t>(amount.data() + amount.size() - end));
  for (const Unit& u : kUnits) {
    if (u.of == entry.unit && u.name == written) return number * u.factor;
  }
  refuse("--budget " + b.text + ": unit '" + std::string(written) + "' of " + b.metric + "; " +
         units_of(entry.unit) + " is required");
}

// The value in the largest binary unit of which there is at least one; units ascend in the table.
std::string human(double value, std::string_view metric_unit) {
  const Unit* best = nullptr;
  for (const Unit& u : kUnits) {
    if (u.of != metric_unit || u.decimal) continue;
    if (best == nullptr || u.factor <= value) best = &u;
  }
  std::ostringstream text;
  text << std::setprecision(6) << (best == nullptr ? value : value / best->factor);
  if (best != nullptr && !best->name.empty()) text << ' ' << best->name;
  return text.str();
}

bool holds(double value, const std::string& comparison, double limit) {
  if (comparison == "<=") return value <= limit;
  if (comparison == "<") return value < limit;
  if (comparison == ">=") return value >= limit;
  return value > limit;
}

std::string words_of(const std::string& comparison) {
  const bool upper = comparison.front() == '<';
  if (comparison.size() == 2) return upper ? "at most " : "at least ";
  return upper ? "less than " : "more than ";
}

void escape(std::ostream& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '&':
        out << "&amp;";
        break;
      case '<':
        out << "&lt;";
        break;
      case '>':
        out << "&gt;";
        break;
      case '"':
        out << "&quot;";
        break;
      case '\n':
        out << "&#10;";
        break;
      default:
        out << (static_cast<unsigned char>(c) < 0x20U ? ' ' : c);
    }
  }
}

}  // namespace

Budget parse_budget(const std::string& text) {
  std::string packed = text;
  packed.erase(std::remove(packed.begin(), packed.end(), ' '), packed.end());
  Budget b{.text = text, .metric = {}, .comparison = {}};
  const std::size_t at = packed.find_first_of("<>");
  if (at == std::string::npos || at == 0) {
    refuse("--budget " + text + ": METRIC<=NUMBER is required (or <, >=, >)");
  }
  b.metric = packed.substr(0, at);
  b.comparison = packed.substr(at, packed.compare(at + 1, 1, "=") == 0 ? 2 : 1);
  b.limit =
      limit_of(b, std::string_view(packed).substr(at + b.comparison.size()), *metric_of(b).entry);
  return b;
}

BudgetResult check_budget(const Budget& budget, const Json& summary, const Json& totals) {
  const bool upper = budget.comparison.front() == '<';
  const Json* worst = nullptr;
  std::string core;
  for (const auto& [name, metrics] : summary.items()) {
    const auto found = metrics.find(budget.metric);
    if (found == metrics.end()) continue;
    const bool worse = worst != nullptr && (upper ? *found > *worst : *found < *worst);
    if (worst != nullptr && !worse) continue;
    worst = &*found;
    core = name;
  }
  BudgetResult result{.budget = budget, .message = {}};
  const std::string_view unit = find_metric(budget.metric)->entry->unit;
  const std::string allowed = words_of(budget.comparison) + human(budget.limit, unit);
  if (worst == nullptr) {
    result.message = budget.metric + " has no value in this run; " + allowed + " is required";
    return result;
  }
  double value = worst->get<double>();
  std::string where = summary.size() > 1 ? " on " + core : "";
  const double whole = totals.value("total_time", value);
  if (budget.metric == "total_time" && whole != value) {
    value = whole;
    where = " over all cores";
  }
  result.kept = holds(value, budget.comparison, budget.limit);
  result.message = budget.metric + " is " + human(value, unit) + where + "; " + allowed + " is " +
                   (upper ? "allowed" : "required");
  return result;
}

Json to_json(const BudgetResult& result) {
  return {{"budget", result.budget.text},
          {"metric", result.budget.metric},
          {"kept", result.kept},
          {"message", result.message}};
}

std::string junit_xml(const std::string& suite, const std::vector<TestCase>& cases,
                      double seconds) {
  const auto failures =
      std::count_if(cases.begin(), cases.end(), [](const TestCase& c) { return !c.passed; });
  std::ostringstream counts, out;
  counts << "tests=\"" << cases.size() << "\" failures=\"" << failures
         << "\" errors=\"0\" skipped=\"0\" time=\"" << std::fixed << std::setprecision(3) << seconds
         << '"';
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites " << counts.str()
      << ">\n  <testsuite name=\"";
  escape(out, suite);
  out << "\" " << counts.str() << ">\n";
  for (const TestCase& c : cases) {
    out << "    <testcase classname=\"";
    escape(out, suite);
    out << "\" name=\"";
    escape(out, c.name);
    out << '"';
    if (c.passed) {
      out << "/>\n";
      continue;
    }
    out << ">\n      <failure message=\"";
    escape(out, c.message);
    out << "\"/>\n    </testcase>\n";
  }
  out << "  </testsuite>\n</testsuites>\n";
  return out.str();
}

}  // namespace nkisim
