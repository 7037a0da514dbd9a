// What a run may take at most: --max-time, --max-instructions, --max-memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "src/cli/command.hpp"

namespace nkisim::cli {

void add_limit_options(boost::program_options::options_description& named);

/// The limits of one command, counted from its construction. A run asks stop() now and then and
/// then ends as after Ctrl-C, with reports of what ran until then. Compiling has nobody who asks:
/// there the program ends by itself some time after the limit. One at a time.
class Limits {
 public:
  /// A limit that is no positive number is a usage Error.
  explicit Limits(const Args& args);
  ~Limits();
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

  /// Whether the run is to end: Ctrl-C, or a limit that `instructions` done, the time or the
  /// memory of this process has reached.
  [[nodiscard]] bool stop(std::uint64_t instructions);
  /// The limit that was reached, "--max-time 10"; empty: none.
  [[nodiscard]] const std::string& reached() const { return reached_; }
  /// Bytes for tensors: --max-memory, else what the host gives.
  [[nodiscard]] std::int64_t memory_bytes() const { return memory_; }
  /// From here on the time is not watched from outside any more: reports are written.
  void calm();

 private:
  void watch() const;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  double seconds_ = 0;  // 0: none
  std::uint64_t instructions_ = 0;
  std::int64_t memory_ = 0, asked_memory_ = 0;
  std::uint64_t asked_ = 0;  // times
  std::string time_text_, instructions_text_, memory_text_, reached_;
};

}  // namespace nkisim::cli
