// Computes for a debugger the memory at any instant of a run: it executes without timing those
// instructions that were complete then. Saved copies of memory make it quick.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "isa/world/interpreter.hpp"

namespace nkisim::isa {

/// The steps of each core that are executed.
struct ExecutedSteps {
  /// The first steps of each core, all of which are executed. Cores have met equally often in them,
  /// and what one of them has of another it has from such a meeting.
  std::vector<std::uint64_t> first = {};
  /// Says of all steps, by core; behind the last of a core it has ended.
  std::vector<std::vector<StepEffect>> effects = {};
};

/// For a program of one rank.
class PartialRuns {
 public:
  using Fresh = std::function<std::unique_ptr<Memory>()>;
  /// `fresh`: memory with the inputs. Copies are kept every `every` steps, and ever farther from
  /// each other where they would take more than `most` bytes.
  PartialRuns(const Program& program, Fresh fresh, InterpretOptions options,
              std::uint64_t every = 512, std::int64_t most = std::int64_t{1} << 30U);
  ~PartialRuns();
  PartialRuns(const PartialRuns&) = delete;
  PartialRuns& operator=(const PartialRuns&) = delete;

  /// The memory behind these steps, valid until the next call. Throws Error as interpret().
  Memory& run(const ExecutedSteps& steps);
  /// The instructions executed by all calls so far.
  [[nodiscard]] std::uint64_t executed() const { return count_; }
  /// The bytes of the copies that are kept.
  [[nodiscard]] std::int64_t kept_bytes() const;

 private:
  struct State;
  [[nodiscard]] std::unique_ptr<State> begin() const;
  [[nodiscard]] std::unique_ptr<State> copy(const State& from) const;
  [[nodiscard]] std::unique_ptr<State> nearest(const std::vector<std::uint64_t>& first) const;
  void advance(State& state, const std::vector<std::uint64_t>& first);
  void keep(const State& state);
  void finish(State& state, const ExecutedSteps& steps);

  const Program& program_;
  Fresh fresh_;
  InterpretOptions options_;
  std::uint64_t every_;
  std::int64_t most_;
  std::vector<bool> written_;                // by tensor
  std::deque<std::unique_ptr<State>> kept_;  // by their steps
  std::unique_ptr<State> last_;              // behind the first steps of the last call
  std::unique_ptr<State> shown_;             // behind all of them
  std::uint64_t count_ = 0;
};

}  // namespace nkisim::isa
