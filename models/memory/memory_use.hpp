// Records which on-chip memories (SBUF, PSUM) an instruction reads and writes.
#pragma once

#include <cstdint>

namespace nkisim::models {

struct MemoryUse {
  bool sbuf = false;
  std::uint32_t psum_banks = 0;  // a bit each
};

}  // namespace nkisim::models
