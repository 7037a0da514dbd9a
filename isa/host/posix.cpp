// Implements the operating system services that are the same on Linux and other POSIX systems.

#include "isa/host/posix.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

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

}  // namespace nkisim::isa::host
