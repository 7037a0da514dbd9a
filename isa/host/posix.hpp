// The parts of host.hpp that are the same on every system, over linux.cpp or portable.cpp.
#pragma once

#include <cstdint>

namespace nkisim::isa::host {

/// The most memory that the control group of this process may have.
[[nodiscard]] std::int64_t group_memory_bytes();

}  // namespace nkisim::isa::host
