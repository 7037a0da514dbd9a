// Implements the operating system services that are the same on Linux and other POSIX systems.

#include "isa/host/posix.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <thread>

#include "isa/host/host.hpp"

namespace nkisim::isa::host {

std::int64_t memory_bytes() {
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max() / 4;
  const std::int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) bytes = std::min(bytes, pages * page);
  for (const auto which : {RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (getrlimit(which, &limit) != 0 || limit.rlim_cur >= static_cast<rlim_t>(bytes)) continue;
    bytes = static_cast<std::int64_t>(limit.rlim_cur);
  }
  return std::min(bytes, group_memory_bytes());
}

std::size_t processors() {
  constexpr long kMost = 64;
  const char* text = std::getenv("NKISIM_THREADS");
  const long wanted = text == nullptr ? 0 : std::strtol(text, nullptr, 10);
  if (wanted > 0) return static_cast<std::size_t>(std::min(wanted, kMost));
  std::size_t count = std::max(1U, std::thread::hardware_concurrency());
  std::ifstream group("/sys/fs/cgroup/cpu.max");  // "max 100000" where it has no share
  if (std::size_t share = 0, period = 0; group >> share >> period && period > 0) {
    count = std::clamp<std::size_t>(share / period, 1, count);
  }
  return count;
}

}  // namespace nkisim::isa::host
