// Explains a simulated run in words: where its time went, which instructions were critical, and
// which changes would help.
#pragma once

#include <ostream>
#include <vector>

#include "src/report/bound.hpp"
#include "src/report/what_if.hpp"

namespace nkisim {

/// Per engine and DMA queue its time by cause, then the critical path, by regions too, and the
/// verdict. `bottleneck`: Totals::bottleneck().
void print_explanation(std::ostream& out, const Accounting& accounting,
                       const std::string& bottleneck, const std::vector<WhatIf>& changes);
/// The verdict alone, one sentence per line.
[[nodiscard]] std::vector<std::string> verdict(const Accounting& accounting,
                                               const std::string& bottleneck,
                                               const std::vector<WhatIf>& changes);

/// The ranks of a world and the path through them. Ranks whose time is another's have no accounting
/// (null), or one without cores. `latencies`: of each rank.
void print_world(std::ostream& out, std::span<const Accounting* const> ranks,
                 std::span<const models::Fs> latencies);
/// The facts of a rank's world in its session: number of ranks, whose time stands for whose, the
/// path.
[[nodiscard]] nlohmann::ordered_json world_facts(std::span<const Accounting* const> ranks,
                                                 const std::vector<int>& timed_as);

}  // namespace nkisim
