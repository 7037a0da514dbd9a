// Records which on-chip memories an instruction streams through.
#pragma once

#include <cstdint>

namespace nkisim::models {

struct MemoryUse {
  bool sbuf = false;
  std::uint32_t psum_banks = 0;  // a bit each
};

}  // namespace nkisim::models
