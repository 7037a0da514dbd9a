// Declares Runner, which runs one job (a run described as data) step by step for run(Job).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "checks/races.hpp"
#include "src/job/limits.hpp"
#include "src/job/run.hpp"

namespace nkisim {

class Runner {
 public:
  Runner(const Job& job, RunListener& listener, RunArtifacts& artifacts, Programs& programs);
  Outcome run();

 private:
  using Memories = std::vector<std::unique_ptr<isa::Memory>>;

  void prepare();
  void check_choices() const;
  void check_stop_request() const;
  void check_races();
  void simulate();
  [[nodiscard]] isa::Conditions conditions() const;
  [[nodiscard]] RankInputs rank_inputs(std::size_t rank);
  void report();
  void stop();
  void stop_before_error();
  [[nodiscard]] SwitchRuns try_switches();
  void conclude(std::size_t rank);
  void conclude_all();

  void go_on();
  [[nodiscard]] bool stop(std::uint64_t instructions) { return limits_.stop(instructions); }
  void progress(const char* stage, std::uint64_t done, std::uint64_t all) {
    listener_.progress(stage, done, all);
  }
  [[nodiscard]] Memories memories() const;
  [[nodiscard]] std::unique_ptr<isa::Memory> memory() const;
  [[nodiscard]] bool alone() const { return options_.world.ranks == 1; }
  [[nodiscard]] const isa::Program& program() const { return *loaded_->trace.program; }
  [[nodiscard]] ReportFiles files_of(std::size_t rank) const;
  [[nodiscard]] int exit_code() const;

  const Job& job_;
  RunListener& listener_;
  RunArtifacts& artifacts_;
  Programs& programs_;
  Limits limits_;
  isa::RulePolicy policy_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::vector<Budget> budgets_;
  Loaded* loaded_ = nullptr;
  bool values_ = true;
  models::RunOptions options_;  // of every rank, but for its reports
  Memories memories_;
  checks::RaceReport races_;
  std::optional<Execution> execution_;
  Outcome out_;
};

/// "out.{rank}.npz" for one rank.
[[nodiscard]] std::string for_rank(std::string name, std::size_t rank);
/// Loads the inputs of a job, and what a caller has in memory (may be null), into the memories of
/// its ranks.
void load_inputs(const Job& job, const TraceFile& trace, const HostArrays* arrays,
                 const std::vector<std::unique_ptr<isa::Memory>>& memories);
/// True if ranks of a job have inputs of their own.
[[nodiscard]] bool inputs_differ(const Job& job, const TraceFile& trace);
/// Writes the outputs in a rank's memory as the job says; the files, by tensor.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> write_outputs(
    const Job& job, const isa::Program& program, isa::Memory& memory, std::size_t rank);
/// Writes a whole file or none.
void write_text(const std::string& name, const std::string& bytes);

}  // namespace nkisim
