// Draws a progress bar on a terminal. It draws nothing when standard error is piped.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace nkisim::cli {

class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Redraws at most ten times a second. `total` 0: only the count is shown.
  void update(std::uint64_t done, std::uint64_t total);
  void clear();

 private:
  std::string label_;
  bool active_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point started_, last_;
};

}  // namespace nkisim::cli
