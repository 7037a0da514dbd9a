// Runs a job (one simulation) for a debugger. It can give the state at any instant, and keeps the
// error that ended the run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "src/job/execution.hpp"
#include "src/job/programs.hpp"
#include "src/report/report.hpp"

namespace nkisim {

class DebugRun {
 public:
  /// Runs the job's trace, of one rank, on its machine; of the rest of a job it takes the inputs
  /// and whether there are values. Throws isa::Error where there is nothing to look at.
  explicit DebugRun(Job job);
  ~DebugRun();
  DebugRun(const DebugRun&) = delete;
  DebugRun& operator=(const DebugRun&) = delete;

  [[nodiscard]] const isa::Program& program() const { return *loaded_->trace.program; }
  [[nodiscard]] Stops& stops() { return *stops_; }
  [[nodiscard]] const Stops& stops() const { return *stops_; }
  /// The error that ended the run, or "": what was complete before it can be looked at.
  [[nodiscard]] const std::string& error() const { return error_; }
  [[nodiscard]] bool has_values() const { return values_; }

 private:
  [[nodiscard]] std::unique_ptr<isa::Memory> memory() const;
  void keep_inputs(isa::Memory& memory);
  void run();

  Job job_;
  Programs programs_{1};
  Loaded* loaded_ = nullptr;
  bool values_ = true;
  std::map<std::uint32_t, std::unique_ptr<isa::SharedBytes>> inputs_;  // their files may go
  RunArtifacts artifacts_;
  std::optional<Execution> execution_;
  std::optional<Stops> stops_;
  std::string error_;
};

}  // namespace nkisim
