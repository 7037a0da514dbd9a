// Declares the requests that linux.cpp and portable.cpp each answer for posix.cpp, which implements
// the parts of host.hpp that are the same on every system.
#pragma once

#include <cstdint>

namespace nkisim::isa::host {

/// The most memory that the control group of this process may have.
[[nodiscard]] std::int64_t group_memory_bytes();

/// The bytes that RLIMIT_DATA counts of this process; 0 where the system does not say.
[[nodiscard]] std::int64_t data_bytes();

}  // namespace nkisim::isa::host
