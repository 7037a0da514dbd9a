// What `nkisim run` says about a run: in lines, as JSON, as test cases, and by its exit code.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compiler/unit.hpp"
#include "isa/machine/memory.hpp"
#include "src/cli/command.hpp"
#include "src/report/report.hpp"
#include "src/run/run.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {

/// One run and what came of it.
struct Outcome {
  TraceFile trace = {};
  std::unique_ptr<isa::Memory> memory = nullptr;  // null: time only
  bool timed = true;                              // false: --functional
  bool world = false;                             // several ranks, which are to be run yet
  Summary summary = {};
  ProgramOrigin origin = {};
  std::optional<isa::Program::Version> recorded = {};  // before it was compiled, for --confidence
  Confidence confidence = {};
  SimResult result = {};
  std::unique_ptr<Reports> reports = nullptr;
  std::vector<WhatIf> changes = {};
  std::string stopped_by = {};             // the limit that ended the run early
  std::vector<Comparison> outputs = {};    // --expect
  std::vector<std::string> left_out = {};  // outputs that --expect has no array for
  bool subset = false;                     // which is no failure
  std::vector<BudgetResult> budgets = {};
  double seconds = 0;                  // of wall time
  std::optional<Recorded> facts = {};  // --recorded
  std::size_t moved = 0;  // instructions that --schedule list issues before earlier ones
  std::vector<compiler::Peak> peaks = {};  // of memory that the compiler placed
};

/// Writes a whole file or none.
void write_text(const std::string& name, const std::string& bytes);
void add_result_options(boost::program_options::options_description& named);
/// --rtol and --atol, or --rel-l2.
[[nodiscard]] Tolerance tolerance(const Args& args);
/// A tolerance that lets everything pass is a usage Error.
void check_result_options(const Args& args);
/// Compares outputs and budgets, writes --outputs, --summary-json and --junit. An interrupted run
/// has no outputs to compare or write.
void conclude(const Args& args, const std::vector<Budget>& budgets, Outcome& out);
/// Budgets that are broken on standard error, and the others unless `quiet` on standard output.
void print_budgets(const std::vector<BudgetResult>& budgets, bool quiet);
/// Prints the result as lines, or one JSON object with --json.
void print_result(const Args& args, const Outcome& out);
/// Outputs that differ and budgets that are broken, on standard error.
void print_failures(const Args& args, const Outcome& out);
[[nodiscard]] nlohmann::ordered_json to_json(const Outcome& out);
/// 128 + signal after an interruption, kBadInput after a limit, kDiffers if outputs differ or were
/// left out or a budget is broken, else kOk.
[[nodiscard]] int exit_code(const Outcome& out);

}  // namespace nkisim::cli
