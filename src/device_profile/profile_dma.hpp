// Finds the packets that each DMA trigger instruction of a device profile caused.
#pragma once

#include <string>
#include <vector>

#include "src/device_profile/profile_body.hpp"

namespace nkisim {

/// The transfer of one trigger.
struct LinkedDma {
  std::string queue;                     // as the profile calls it
  std::vector<const HwPacket*> payload;  // engine by engine, in order; empty: not in the profile
  std::int32_t semaphore = -1, increment = 0;
  isa::DgeMode mode = isa::DgeMode::kUnknown;
};

/// One entry per instruction of `body`; those that trigger no DMA are empty. Packets name no
/// trigger, so they are counted off: on each queue and engine the k-th group, ended by a semaphore
/// write, belongs to the queue's k-th trigger. Mismatches are reported in `warnings`.
[[nodiscard]] std::vector<LinkedDma> link_dma(const HwProfile& profile, const ProfileBody& body,
                                              std::vector<std::string>& warnings);

}  // namespace nkisim
