// What host.hpp says of every system, from what linux.cpp or portable.cpp knows.
#pragma once

#include <cstdint>

namespace nkisim::isa::host {

/// What the control group of this process may have at most.
[[nodiscard]] std::int64_t group_memory_bytes();

}  // namespace nkisim::isa::host
