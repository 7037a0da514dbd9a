// Prints the results of `nkisim run`: as lines of text, as JSON or as JUnit test cases.
#pragma once

#include <vector>

#include "src/cli/command.hpp"
#include "src/job/job.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {

/// --rtol and --atol, or --rel-l2. One that lets everything pass is a usage Error.
[[nodiscard]] Tolerance tolerance(const Args& args);
/// Writes --junit.
void write_junit(const Args& args, const Outcome& out);
/// Prints the result as lines, or one JSON object with --json.
void print_result(const Args& args, const Outcome& out, const RunArtifacts& artifacts);
/// Outputs that differ and budgets that are broken, on standard error.
void print_failures(const Args& args, const Outcome& out);

}  // namespace nkisim::cli
