// Declares Job and Outcome: the description of a simulation run and its result, as plain data. Each
// has one JSON form (docs/jobs.md).
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compiler/unit.hpp"
#include "isa/base/policy.hpp"
#include "src/report/report.hpp"
#include "src/run/run.hpp"

namespace nkisim {

/// One run. Every front end makes one of these of its own words; names of files may hold {rank}
/// where each rank has its own.
struct Job {
  static constexpr int kVersion = 1;
  nlohmann::ordered_json id = nullptr;  // comes back with the outcome

  // The program and the machine.
  std::string trace;
  std::string target = {};            // instead of the trace's
  std::string config = {};            // a built-in name or a file; empty: the target's
  std::vector<std::string> set = {};  // path=value: numbers of the config
  std::map<std::string, std::string> switches = {};  // of the compiler, by name
  bool over_capacity = false;                        // a placed trace may exceed SBUF and PSUM
  std::optional<int> ranks = {};                     // none: as the trace says
  std::string ring_order = "group";
  bool any_world = false, fold = true;

  // Parts of the result that are wanted.
  bool values = true, time = true;
  bool reasons = true;  // bottleneck and trust, which take a few percent of a run's own time
  bool full_confidence = false;

  // An archive next to the trace, which is to be a program as a kernel was recorded (recorded()).
  std::string recorded = {};

  // Data.
  std::string inputs = {};                         // .npz, by tensor
  std::map<std::string, std::string> arrays = {};  // .npy by the key that the trace gives them
  std::vector<std::string> roots = {};
  std::string outputs = {};        // .npz to write
  std::string output_arrays = {};  // NAME of NAME.0.npy, ...: an output each, in place where it is
  std::string expect = {};         // .npz to compare with
  bool expect_subset = false;
  Tolerance tolerance = {};
  std::vector<std::string> budgets = {};

  // The rules that are errors or warnings.
  bool allow_unwritten = false, allow_races = false;
  isa::RuleChoices rules = {};
  std::optional<std::uint32_t> stochastic_rounding = {};

  // At most; as texts, of which messages speak.
  struct Most {
    std::string time = {}, instructions = {}, memory = {};
  } most = {};

  // Where to look at the run, and the file for values.
  StopRequest stop = {};
  std::string dump_to = {};

  // Reports to write.
  std::string summary_json = {}, html = {};
  ReportFiles reports = {};
};

/// The result of a Job.
struct Outcome {
  static constexpr int kVersion = 1;
  struct Rank {
    std::uint64_t instructions = 0;
    bool partial = false;
    nlohmann::ordered_json summary = nullptr;  // per core; null without time
    double latency_us = 0;
    std::vector<Comparison> outputs = {};
    std::vector<std::string> not_compared = {};
    std::vector<std::pair<std::string, std::string>> files = {};  // of outputs, by tensor
    int timed_as = 0, values_of = 0;
  };
  nlohmann::ordered_json id = nullptr;
  nlohmann::ordered_json error = nullptr;  // error_json; the rest is empty then
  int exit_code = 0;
  bool partial = false, timed = true, subset = false;
  std::string stopped_by = {};  // the limit that ended the run early
  std::string target = {};
  std::vector<Rank> ranks = {};
  nlohmann::ordered_json totals = nullptr;  // Totals::put
  nlohmann::ordered_json confidence = nullptr;
  std::optional<Recorded> recorded = {};         // what a recorded program was found to be
  std::vector<compiler::MemoryPeak> peaks = {};  // of memory that the compiler placed
  std::vector<BudgetResult> budgets = {};
  nlohmann::ordered_json stop = nullptr;  // to_json(Stop), if the job has one
  std::size_t moved = 0;  // instructions that the list scheduler issues before earlier ones
  models::Fs end = 0;     // of what was simulated
  double seconds = 0;     // of wall time
  std::vector<std::string> warnings = {}, printed = {};  // kept by run(job) alone
};

/// Exit codes of commands, and of an Outcome.
inline constexpr int kOk = 0, kDiffers = 1, kUsage = 2, kBadInput = 3, kInternal = 4;
inline constexpr int kSignalled = 128;  // plus the signal: 130 after Ctrl-C

/// One object. Throws a usage Error that names the field.
[[nodiscard]] Job job_of(const nlohmann::ordered_json& json);
[[nodiscard]] nlohmann::ordered_json to_json(const Job& job);
/// As `nkisim run --json` prints it.
[[nodiscard]] nlohmann::ordered_json to_json(Outcome outcome);

}  // namespace nkisim
