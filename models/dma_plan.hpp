// How a transfer is spread over the DMA engines and cut into packets.
#pragma once

#include <vector>

#include "isa/inst.hpp"
#include "models/dma_lane.hpp"

namespace nkisim::models {

/// One engine's share: which engine, when it may start after the first one, and what it moves.
struct LanePlan {
  int engine = 0;
  Fs offset = 0;  // after the transfer's first-packet time
  LaneItem item;
  std::int64_t bytes = 0, packets = 0, packet_bytes = 0;  // payload
};

/// All shares of a transfer; engines without payload only write their semaphore.
[[nodiscard]] std::vector<LanePlan> plan_dma(const isa::DmaWork& work,
                                             const isa::DmaPlan* explicit_plan,
                                             const DgeConfig& dge, const DmaConfig& config);

}  // namespace nkisim::models
