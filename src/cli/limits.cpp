#include "src/cli/limits.hpp"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <span>
#include <string_view>

#include "src/cli/interrupt.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

constexpr std::uint64_t kMemoryEvery = 16;  // looks at the clock between two at the memory
constexpr double kMaxSeconds = 1e9, kGraceFactor = 1.25, kGraceSeconds = 5;

struct Unit {
  const char* suffix;
  double factor;
};

// "90", "1.5h": a number and one of the units, of which the first has no suffix.
double parse(const std::string& option, const std::string& text, std::span<const Unit> units,
             double most) {
  double value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string suffix(end, text.data() + text.size());
  const auto unit =
      std::find_if(units.begin(), units.end(), [&](const Unit& u) { return suffix == u.suffix; });
  if (ec == std::errc{} && unit != units.end()) value *= unit->factor;
  if (ec != std::errc{} || unit == units.end() || !std::isfinite(value) || value <= 0 ||
      value > most) {
    usage(isa::Rule::option_value,
          "--" + option + " is " + text + "; a positive number is required");
  }
  return value;
}

// The smallest of what bounds this process; half of it leaves room for operands and reports.
std::int64_t host_memory() {
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max() / 4;
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  if (pages > 0 && page > 0) bytes = std::min(bytes, pages * page);
  for (const int which : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(which, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(bytes)) continue;
    bytes = static_cast<std::int64_t>(limit.rlim_cur);
  }
  for (const char* name :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream in(name);
    if (std::int64_t limit = 0; in >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes / 2;
}

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * sysconf(_SC_PAGE_SIZE);
}

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

Limits::Limits(const Args& args)
    : memory_(host_memory()),
      time_text_(text(args, "max-time")),
      instructions_text_(text(args, "max-instructions")),
      memory_text_(text(args, "max-memory")) {
  constexpr std::array<Unit, 4> kTimes = {{{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}}};
  constexpr std::array<Unit, 5> kSizes = {
      {{"", 1}, {"K", 1024}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}}};
  constexpr std::array<Unit, 1> kCount = {{{"", 1}}};
  if (!time_text_.empty()) seconds_ = parse("max-time", time_text_, kTimes, kMaxSeconds);
  if (!instructions_text_.empty()) {
    instructions_ = static_cast<std::uint64_t>(
        std::ceil(parse("max-instructions", instructions_text_, kCount, 0x1p53)));
  }
  if (!memory_text_.empty()) {
    memory_ = asked_memory_ =
        static_cast<std::int64_t>(parse("max-memory", memory_text_, kSizes, 0x1p60));
  }
  watch();
}

Limits::~Limits() { calm(); }

void Limits::watch() const {
  if (seconds_ <= 0) return;
  std::signal(SIGALRM, give_up);
  set_timer(std::ceil(seconds_ * kGraceFactor) + kGraceSeconds);
}

void Limits::calm() {
  if (seconds_ > 0) set_timer(0);
}

bool Limits::stop(std::uint64_t instructions) {
  if (Interrupts::signal() != 0 || !reached_.empty()) return true;
  if (instructions_ > 0 && instructions >= instructions_) {
    reached_ = "--max-instructions " + instructions_text_;
  } else if (seconds_ > 0 &&
             std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count() >=
                 seconds_) {
    reached_ = "--max-time " + time_text_;
  } else if (asked_memory_ > 0 && asked_++ % kMemoryEvery == 0 &&
             resident_bytes() > asked_memory_) {
    reached_ = "--max-memory " + memory_text_;
  }
  return !reached_.empty();
}

}  // namespace nkisim::cli
