// Declares the few services that posix.cpp needs and that Linux and other systems implement apart.
#pragma once

#include <cstdint>

namespace nkisim::isa::host {

/// The most memory that the control group of this process may have.
[[nodiscard]] std::int64_t group_memory_bytes();

/// The bytes that RLIMIT_DATA counts of this process; 0 where the system does not say.
[[nodiscard]] std::int64_t data_bytes();

}  // namespace nkisim::isa::host
