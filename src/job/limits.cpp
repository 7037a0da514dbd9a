#include "src/job/limits.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <limits>
#include <span>
#include <utility>

namespace nkisim {
namespace {
namespace of_limits {

constexpr std::uint64_t kMemoryEvery = 16;  // looks at the clock between two at the memory
constexpr double kMaxSeconds = 1e9;

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
    throw isa::Error(isa::Rule::option_value,
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

}  // namespace of_limits
}  // namespace

Limits::Limits(const Job::Most& most, std::function<bool()> ends)
    : ends_(std::move(ends)), memory_(of_limits::host_memory()), text_(most) {
  using of_limits::Unit;
  constexpr std::array<Unit, 4> kTimes = {{{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}}};
  constexpr std::array<Unit, 5> kSizes = {
      {{"", 1}, {"K", 1024}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}}};
  constexpr std::array<Unit, 1> kCount = {{{"", 1}}};
  if (!most.time.empty()) {
    seconds_ = of_limits::parse("max-time", most.time, kTimes, of_limits::kMaxSeconds);
  }
  if (!most.instructions.empty()) {
    instructions_ = static_cast<std::uint64_t>(
        std::ceil(of_limits::parse("max-instructions", most.instructions, kCount, 0x1p53)));
  }
  if (!most.memory.empty()) {
    memory_ = asked_memory_ =
        static_cast<std::int64_t>(of_limits::parse("max-memory", most.memory, kSizes, 0x1p60));
  }
}

bool Limits::stop(std::uint64_t instructions) {
  if ((ends_ && ends_()) || !reached_.empty()) return true;
  if (instructions_ > 0 && instructions >= instructions_) {
    reached_ = "--max-instructions " + text_.instructions;
  } else if (seconds_ > 0 &&
             std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count() >=
                 seconds_) {
    reached_ = "--max-time " + text_.time;
  } else if (asked_memory_ > 0 && asked_++ % of_limits::kMemoryEvery == 0 &&
             of_limits::resident_bytes() > asked_memory_) {
    reached_ = "--max-memory " + text_.memory;
  }
  return !reached_.empty();
}

}  // namespace nkisim
