// Reads --max-time, --max-instructions and --max-memory, and ends a run that does not check its
// time itself.
#pragma once

#include "src/cli/command.hpp"
#include "src/job/job.hpp"

namespace nkisim::cli {

[[nodiscard]] Job::Most most_of(const Args& args);

/// Compiling never asks whether the time is over: while it exists, the program ends by
/// itself some time after the limit. One at a time.
class Watch {
 public:
  explicit Watch(const Job::Most& most);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  /// From here on the time is not watched from outside any more: reports are written.
  void disarm() const;

 private:
  double seconds_ = 0;
};

}  // namespace nkisim::cli
