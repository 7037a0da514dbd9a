// Where the time went, what was critical, what would help, in words.
#pragma once

#include <ostream>
#include <vector>

#include "src/report/accounting.hpp"
#include "src/report/what_if.hpp"

namespace nkisim {

/// Per engine and DMA queue its time by cause, then the critical path and the verdict.
void print_explanation(std::ostream& out, const Accounting& accounting,
                       const std::vector<WhatIf>& changes);
/// The verdict alone, one sentence per line.
[[nodiscard]] std::vector<std::string> verdict(const Accounting& accounting,
                                               const std::vector<WhatIf>& changes);

}  // namespace nkisim
