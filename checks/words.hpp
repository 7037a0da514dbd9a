// Words that several findings use.
#pragma once

#include <string>

#include "isa/disasm.hpp"

namespace nkisim::checks {

/// "S[5] (Tensor) >= 2".
[[nodiscard]] std::string condition_text(const isa::SemaphoreWait& wait,
                                         const isa::SemaphoreNames& names);

}  // namespace nkisim::checks
