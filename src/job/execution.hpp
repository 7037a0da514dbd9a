// Simulates the given ranks, observes their events and makes their reports. All runs use it, from a
// job (a run described as data) and from Python.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/report/report.hpp"
#include "src/run/run.hpp"

namespace nkisim {

/// Results that cannot be serialised. Reports of this process read them; they are valid while the
/// programs live.
struct RunArtifacts {
  struct Rank {
    Summary summary = {};
    std::optional<Confidence> confidence = {};         // where reasons are wanted
    std::unique_ptr<Accounting> accounting = nullptr;  // ... until the end; longer for reports
    std::unique_ptr<Reports> reports = nullptr;
    std::unique_ptr<Steps> steps = nullptr;  // for Execution::stop
  };
  std::deque<Rank> ranks = {};
  std::vector<WhatIf> changes = {};
  nlohmann::ordered_json world = nullptr;  // world_facts, where reports need them

  /// The accounting of each rank; null where another rank's time stands for it, or nothing asked
  /// for it.
  [[nodiscard]] std::vector<const Accounting*> accountings() const;
  [[nodiscard]] std::vector<models::Fs> latencies() const;
};

/// One rank as it is given, its inputs in its memory.
struct RankInputs {
  RankInput input = {};      // observed by the execution alone
  ReportFiles reports = {};  // to write, under this rank's own names
  std::string html = {};
  bool reasons = true;  // bottleneck and trust; reports need the first anyway
  ProgramOrigin origin = {};
  /// Makes the caller's own observers of an attempt; may be missing.
  std::function<std::vector<models::Observer*>()> observers = {};
};

/// Optional extras of a run, and the callbacks that receive its events.
struct RunCallbacks {
  std::function<SwitchRuns()> switches = {};  // what the compiler's switches would change
  MakeMemory fresh = {};                      // the inputs again; none: time alone
  std::function<bool()> go_on = {};           // asked between further runs; false ends them
  std::function<void(const char* stage, std::uint64_t done, std::uint64_t all)> progress = {};
  std::function<void()> simulated = {};  // nothing is simulated any more; reports are written
  /// Writes a page for RankInputs::html: of `session` if there is such a file, else of what `write`
  /// makes.
  std::function<void(const std::string& html, const std::string& session,
                     const std::function<void(const std::string&)>& write)>
      page = {};
};

class Execution {
 public:
  /// `config` and `ran` outlive it.
  Execution(std::vector<RankInputs> ranks, std::reference_wrapper<const models::Config> config,
            RunArtifacts& artifacts);

  /// Before run(): it is to be looked at. Throws isa::Error where `wish` is not of the programs.
  void plan(StopRequest wish);
  /// Runs the ranks. Throws isa::Error, located in a program; stop() then still shows what was.
  const WorldResult& run();
  /// After a run in time: everything in RunArtifacts, and the files of all ranks of this process.
  void report(const RunCallbacks& callbacks);

  [[nodiscard]] const WorldResult& result() const { return result_; }
  [[nodiscard]] bool owns(std::size_t rank) const;
  /// After run(), if it was planned: the run as it was there (stop_at()).
  [[nodiscard]] std::optional<Stop> stop(const FreshMemories& fresh) const;
  /// The trust in a rank's time (Confidence::json); null without reasons, and of a run that was
  /// stopped.
  [[nodiscard]] nlohmann::ordered_json trust(std::size_t rank) const;

 private:
  std::vector<models::Observer*> observe(std::size_t rank);
  void close_steps();
  void ask_more(const RunCallbacks& callbacks);
  void report_world();
  void write_files(std::size_t rank) const;
  void write_rank(std::size_t rank, const RunCallbacks& callbacks);
  [[nodiscard]] const models::RunOptions& options() const {
    return ranks_.front().input.options;  // what counts for all
  }
  [[nodiscard]] bool alone() const { return ranks_.size() == 1; }
  [[nodiscard]] std::size_t timed_as(std::size_t rank) const {
    return static_cast<std::size_t>(result_.timed_as[rank]);
  }

  std::vector<RankInputs> ranks_;
  const models::Config& config_;
  StopRequest stop_;
  RunArtifacts& artifacts_;
  WorldResult result_;
};

}  // namespace nkisim
