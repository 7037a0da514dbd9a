// Shares one computation among threads of this process, which wait for it between two.
#pragma once

#include <functional>

namespace nkisim::isa::host {

/// The threads of in_team(), with the caller's: processors(), at most 8; 1 in a fork of a team.
[[nodiscard]] int team_size();

/// Calls part(i) for every i from 0 to before `count` (at most 65,535), on any thread and in any
/// order: parts write to different places and read what none writes. Throws what one has thrown,
/// when all are done. The caller does them all where others use the team.
void in_team(int count, const std::function<void(int)>& part);

}  // namespace nkisim::isa::host
