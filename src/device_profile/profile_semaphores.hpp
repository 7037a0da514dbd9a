// Semaphore waits of a kernel cut out of a whole run: what the run before it had already raised is
// taken off, and waits on somebody outside are dropped, so that the kernel runs to its end alone.
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
