// Checks limits of a run's metrics ("total_time<=250us"), for continuous integration.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace nkisim {

/// A limit in the summary's own unit.
struct Budget {
  std::string text;  // as given
  std::string metric;
  std::string comparison;  // <=, <, >= or >
  double limit = 0;
};

/// One limit checked against one run.
struct BudgetResult {
  Budget budget;
  bool kept = false;
  std::string message;  // "total_time is 312.5 us on nc_0; at most 250us is allowed"
};

/// METRIC, a comparison and a number with a unit: ns, us, ms or s for times, % for fractions, B,
/// KB, KiB, ... for sizes, none for counts. Throws a usage Error that names near metrics.
[[nodiscard]] Budget parse_budget(const std::string& text);

/// Checks the worst core of a summary ({"nc_0": {...}, ...}); total_time is that of the run's
/// `totals` (Totals::metrics), if they are known.
[[nodiscard]] BudgetResult check_budget(const Budget& budget, const nlohmann::ordered_json& summary,
                                        const nlohmann::ordered_json& totals);
[[nodiscard]] nlohmann::ordered_json to_json(const BudgetResult& result);

/// A test case of a JUnit report.
struct TestCase {
  std::string name;
  bool passed = false;
  std::string message;  // why it failed
};
/// JUnit XML with one suite.
[[nodiscard]] std::string junit_xml(const std::string& suite, const std::vector<TestCase>& cases,
                                    double seconds);

}  // namespace nkisim
