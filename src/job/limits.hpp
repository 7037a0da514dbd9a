// Limits a simulation run: its time on the host, its instructions and its memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "src/job/data.hpp"

namespace nkisim {

/// The limits of one run, counted from its construction. A run asks stop() now and then and then
/// ends with reports of what ran until then.
class Limits {
 public:
  /// A limit that is no positive number is a usage Error. `ends`: whether the run is to end for
  /// another reason, such as Ctrl-C.
  explicit Limits(const Job::Most& most, std::function<bool()> ends = {});

  /// True if the run is to end: by `ends`, or by a limit that `instructions`, the time or the
  /// memory of this process has reached.
  [[nodiscard]] bool stop(std::uint64_t instructions);
  /// The limit that was reached, "--max-time 10"; empty: none.
  [[nodiscard]] const std::string& reached() const { return reached_; }
  /// Bytes for tensors: the limit, else what the host gives.
  [[nodiscard]] std::int64_t memory_bytes() const { return memory_; }
  /// The limit of time; 0: none.
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::function<bool()> ends_;
  double seconds_ = 0;
  std::uint64_t instructions_ = 0;  // 0: none
  std::int64_t memory_ = 0, asked_memory_ = 0;
  std::uint64_t asked_ = 0;  // times
  Job::Most text_;
  std::string reached_;
};

}  // namespace nkisim
