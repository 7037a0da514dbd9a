// Records Ctrl-C and SIGTERM during a long command, so that the command can report what is done.
#pragma once

#include <csignal>

namespace nkisim::cli {

/// While it exists the first SIGINT or SIGTERM is only recorded; the next one ends the program as
/// usual. One at a time.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  /// The signal recorded, or 0.
  [[nodiscard]] static int signal();

 private:
  struct sigaction interrupt_ {
  }, terminate_{};  // what was there before
};

/// From here on SIGINT ends the program with code 128 + SIGINT, if nothing handles it; one that was
/// ignored stays so.
void end_on_interrupt();

}  // namespace nkisim::cli
