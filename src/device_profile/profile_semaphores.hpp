// Adapts the semaphore waits of a kernel that is cut out of a whole profiled run, so that it ends
// when it runs alone. Earlier increments are subtracted; waits for anything outside are dropped.
#pragma once

#include <string>
#include <vector>

#include "src/device_profile/profile_body.hpp"
#include "src/device_profile/profile_dma.hpp"

namespace nkisim {

/// Explicit synchronisation of each instruction of `body`. Waits and posts of the runtime ($S, $E)
/// are dropped. Whatever else had to be changed is reported in `warnings`.
[[nodiscard]] std::vector<isa::Sync> kernel_semaphores(const HwProfile& profile,
                                                       const ProfileBody& body,
                                                       const std::vector<LinkedDma>& dma,
                                                       std::vector<std::string>& warnings);

}  // namespace nkisim
