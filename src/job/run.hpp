// Declares run(Job), through which every run that is described as data goes, and its listener.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "isa/host/memory_bound.hpp"
#include "src/job/data.hpp"
#include "src/job/execution.hpp"
#include "src/job/programs.hpp"

namespace nkisim {

/// Arrays that a caller has in memory, by tensor, for all ranks.
struct HostArrays {
  std::map<std::string, NpyArray> inputs = {};    // instead of the trace's
  std::map<std::string, NpyArray> expected = {};  // outputs to compare with
};

/// Receives the events of a run. Every function has a default.
class RunListener {
 public:
  RunListener() = default;
  virtual ~RunListener() = default;
  RunListener(const RunListener&) = delete;
  RunListener& operator=(const RunListener&) = delete;
  /// A warning about the program or its results.
  virtual void warn(const std::string& /*text*/) {}
  /// A line that the program prints.
  virtual void print(const std::string& /*line*/) {}
  /// Progress of a stage: `done` of `all`; 0 if unknown.
  virtual void progress(const char* /*stage*/, std::uint64_t /*done*/, std::uint64_t /*all*/) {}
  /// The stage has ended.
  virtual void stage_ended() {}
  /// The run as it was where the job says (Outcome::stop), before the error that ended it.
  virtual void stopped(const nlohmann::ordered_json& /*stop*/) {}
  /// An undefined value in an output whose order alone is undefined.
  virtual void undefined(const std::string& /*text*/) {}
  /// The reason why the compiler could not make it fit; it runs all the same.
  virtual void overflow(const std::string& /*text*/) {}
  /// It is about to be run by so many ranks. May throw.
  virtual void prepared(int /*ranks*/) {}
  /// Nothing is simulated any more; reports are written.
  virtual void simulated() {}
  /// Arrays apart from the files of the job; null: none.
  [[nodiscard]] virtual const HostArrays* arrays() const { return nullptr; }
  /// More observers of an attempt to run a rank in time.
  virtual std::vector<models::Observer*> observers(std::size_t /*rank*/) { return {}; }
  /// A rank has run to its end; `memory` holds its outputs. Once for each rank that has values.
  virtual void computed(std::size_t /*rank*/, const isa::Program& /*program*/,
                        isa::Memory& /*memory*/) {}
  /// A signal that asks the run to end, or 0.
  virtual int signal() { return 0; }
  /// Writes the page of a session for --html: `session` if there is such a file, else what `write`
  /// makes.
  virtual void page(const std::string& html, const std::string& session,
                    const std::function<void(const std::string&)>& write);
};

/// Keeps warnings and printed lines; no program fills a host's memory with what it prints.
class KeepingListener : public RunListener {
 public:
  KeepingListener(std::vector<std::string>& warnings, std::vector<std::string>& printed)
      : warnings_(warnings), printed_(printed) {}
  void warn(const std::string& text) override { keep(warnings_, text); }
  void undefined(const std::string& text) override { keep(warnings_, text); }
  void overflow(const std::string& text) override { keep(warnings_, text); }
  void print(const std::string& line) override { keep(printed_, line); }

 private:
  static constexpr std::size_t kLines = 1000, kLength = 2000;
  static void keep(std::vector<std::string>& lines, const std::string& text) {
    if (lines.size() < kLines) lines.push_back(text.substr(0, kLength));
  }
  std::vector<std::string>&warnings_, &printed_;
};

/// Thrown where a signal came before anything was simulated.
struct Interrupted {
  int signal = 0;
};

/// Runs a job. A program alone is a world of one rank. Throws isa::Error, located in the program
/// where it is at fault.
Outcome run(const Job& job, RunListener& listener, RunArtifacts& artifacts, Programs& programs);
/// The same with errors, warnings and prints in the outcome; throws nothing of a job's fault.
[[nodiscard]] Outcome run(const Job& job, Programs& programs);
/// The error that the exception in flight stands for, within a `catch`: also of what the host
/// refused.
[[nodiscard]] isa::Error error_in_flight(const isa::host::MemoryBound& bound);
/// The exit code of what ends with an error.
[[nodiscard]] int exit_code_of(const isa::Error& error);
/// An outcome of an error.
[[nodiscard]] Outcome failed(const nlohmann::ordered_json& id, const isa::Error& error);

}  // namespace nkisim
