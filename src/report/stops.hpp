// Describes the state of a finished run at any of its instants. A debugger steps through them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "isa/world/partial_runs.hpp"
#include "src/report/stop.hpp"

namespace nkisim {

class Stops {
 public:
  /// An instruction, or a transfer, was complete.
  struct Moment {
    models::Fs time = 0;
    int core = 0;
    std::uint64_t step = 0;
    const isa::Inst* inst = nullptr;
  };

  /// `run` is the only rank of its world, and outlives this. `fresh`: memory with its inputs;
  /// empty: there are no values.
  Stops(const StopRank& run, isa::PartialRuns::Fresh fresh);

  /// By time; those of one instant by core and step.
  [[nodiscard]] const std::vector<Moment>& moments() const { return moments_; }
  /// {"instruction", "source", "engine"}.
  [[nodiscard]] nlohmann::ordered_json describe(const Moment& moment) const;
  /// Instructions complete, under way and waited for, and what the semaphores hold.
  [[nodiscard]] nlohmann::ordered_json state(models::Fs at) const;
  /// Throws isa::Error for a tensor that the program does not have.
  [[nodiscard]] std::vector<StopValue> values(models::Fs at, const std::vector<std::string>& names);
  [[nodiscard]] models::Fs end() const { return run_.steps->end(); }
  /// Instructions that values() has executed so far.
  [[nodiscard]] std::uint64_t executed() const { return runs_ ? runs_->executed() : 0; }
  /// The bytes of the copies of memory that are kept.
  [[nodiscard]] std::int64_t kept_bytes() const { return runs_ ? runs_->kept_bytes() : 0; }

 private:
  [[nodiscard]] isa::ExecutedSteps executed_at(models::Fs at) const;

  StopRank run_;
  std::vector<Moment> moments_;
  std::unique_ptr<isa::PartialRuns> runs_;
};

}  // namespace nkisim
