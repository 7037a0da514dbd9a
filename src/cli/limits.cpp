// Ends the program by a timer signal if a run exceeds its time limit (--max-time).

#include "src/cli/limits.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <string_view>

namespace nkisim::cli {
namespace {

constexpr double kMaxSeconds = 1e9, kGraceFactor = 1.25, kGraceSeconds = 5;

// Nothing else may be done in a signal handler.
void give_up(int /*signal*/) {
  constexpr std::string_view kText =
      "nkisim: --max-time is over and the run did not come to a place where it could stop\n";
  if (::write(STDERR_FILENO, kText.data(), kText.size()) < 0) _exit(kInternal);
  _exit(kBadInput);
}

void set_timer(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(std::min(seconds, kMaxSeconds));
  setitimer(ITIMER_REAL, &timer, nullptr);
}

}  // namespace

Job::Most most_of(const Args& args) {
  return {text(args, "max-time"), text(args, "max-instructions"), text(args, "max-memory")};
}

Watch::Watch(const Job::Most& most) : seconds_(Limits(most).seconds()) {
  if (seconds_ <= 0) return;
  std::signal(SIGALRM, give_up);
  set_timer(std::ceil(seconds_ * kGraceFactor) + kGraceSeconds);
}

Watch::~Watch() { disarm(); }

void Watch::disarm() const {
  if (seconds_ > 0) set_timer(0);
}

}  // namespace nkisim::cli
