// `nkisim run --explain`: where the time went, what was critical, what would help.
#pragma once

#include <ostream>
#include <vector>

#include "src/observers/accounting.hpp"
#include "src/what_if.hpp"

namespace nkisim::cli {

void print_explanation(std::ostream& out, const Accounting& accounting,
                       const std::vector<WhatIf>& changes);
/// The verdict alone, one sentence per line.
[[nodiscard]] std::vector<std::string> verdict(const Accounting& accounting,
                                               const std::vector<WhatIf>& changes);

}  // namespace nkisim::cli
