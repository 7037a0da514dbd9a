#include "src/cli/limits.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <string_view>

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

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

void add_limit_options(po::options_description& named) {
  auto add = named.add_options();
  add("max-time", po::value<std::string>(),
      "stop after this much time of the host (seconds, or 5m, 1h); reports are then partial");
  add("max-instructions", po::value<std::string>(),
      "stop once about this many instructions are done (looked at every 256)");
  add("max-memory", po::value<std::string>(),
      "stop when the program uses more than this many bytes (or 500M, 4G); tensors that do not "
      "fit are an error before the run. Default for tensors: half of the host's memory");
  add("root", po::value<std::vector<std::string>>(),
      "a folder from which data files and kernel sources that the trace names may be read, beside "
      "the trace's own; may be repeated");
}

Job::Most most_of(const Args& args) {
  return {text(args, "max-time"), text(args, "max-instructions"), text(args, "max-memory")};
}

Watch::Watch(const Job::Most& most) : seconds_(Limits(most).seconds()) {
  if (seconds_ <= 0) return;
  std::signal(SIGALRM, give_up);
  set_timer(std::ceil(seconds_ * kGraceFactor) + kGraceSeconds);
}

Watch::~Watch() { calm(); }

void Watch::calm() const {
  if (seconds_ > 0) set_timer(0);
}

}  // namespace nkisim::cli
