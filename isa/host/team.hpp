// Shares one computation among threads of this process, which wait for it between two.
#pragma once

#include <functional>

namespace nkisim::isa::host {

/// The threads that in_team() may use, the caller's among them: processors(), at most 8. In a copy
/// of a process with a team (fork) it is 1.
[[nodiscard]] int team_size();

/// Calls part(i) for every i from 0 to before `count` (at most 65,535) and returns when all are
/// done. Any thread does any part, in any order: parts write to different places
/// and read what none of them writes. Throws what one of them has thrown, when all are done. The
/// caller does them all where others use the team.
void in_team(int count, const std::function<void(int)>& part);

}  // namespace nkisim::isa::host
