// Spreads a transfer over the DMA engines and cuts it into packets.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "isa/program/program.hpp"
#include "models/dma/dma_lane.hpp"

namespace nkisim::models {

/// One engine's share: which engine, when it may start after the first one, and what it moves.
struct LanePlan {
  int engine = 0;
  Fs offset = 0;  // after the transfer's first-packet time
  LaneLoad load;
  std::int64_t bytes = 0, packets = 0, packet_bytes = 0;  // payload
};

/// True if a program moves anything from HBM to HBM, whose bytes are read and written there.
[[nodiscard]] bool copies_within_hbm(const isa::Program& program);
/// The number of engines that a transfer is spread over.
[[nodiscard]] int lanes_in_use(const isa::DmaWork& work, const DmaConfig& config);
/// All shares of a transfer; engines without payload only write their semaphore.
[[nodiscard]] std::vector<LanePlan> plan_dma(const isa::DmaWork& work,
                                             const isa::DmaPlan* explicit_plan,
                                             const DgeConfig& dge, const DmaConfig& config);

/// The plan of a transfer, with its sum.
struct TransferPlan {
  std::vector<LanePlan> lanes;
  std::int64_t packets = 0;
};

/// Plans transfers, and remembers the plans of those that will come again.
class DmaPlanner {
 public:
  explicit DmaPlanner(std::reference_wrapper<const DmaConfig> config) : config_(config) {}
  [[nodiscard]] std::shared_ptr<const TransferPlan> plan(const isa::DmaWork& work,
                                                         const isa::DmaPlan* explicit_plan,
                                                         const DgeConfig& dge);

 private:
  using Key = std::array<std::int64_t, 8>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  const DmaConfig& config_;
  std::unordered_map<Key, std::shared_ptr<const TransferPlan>, Hash> known_;
};

}  // namespace nkisim::models
