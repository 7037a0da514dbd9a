// Lists the CC-cores of a rank, and the instructions that neuron-profile shows for them.
#include "models/collective/timing.hpp"

#include <algorithm>

namespace nkisim::models {

std::vector<int> cc_cores(const TopologyConfig& topology, int lnc, int rank) {
  const int ranks_per_chip = topology.cores_per_chip / lnc;
  const int count = lnc * topology.cc_cores_per_core;
  std::vector<int> list;
  for (int i = 0; i < count; ++i) list.push_back(rank % ranks_per_chip * count + i);
  return list;
}

int cc_core(const TopologyConfig& topology, int lnc, int rank, int stream) {
  const std::vector<int> cores = cc_cores(topology, lnc, rank);
  const auto n = static_cast<int>(cores.size());
  return cores.at(static_cast<std::size_t>((n - stream % n) % n));
}

std::string group_text(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  return "[[" + text + "]]";
}

std::vector<CcInstruction> cc_instructions(const RankTiming& timing, const CollectiveConfig& config,
                                           int core) {
  std::vector<CcInstruction> list;
  int semaphore = 0;
  const auto wait = [&](Fs start, Fs end) {
    if (end <= start) return;
    list.push_back({start, end, core, "SEMAPHORE_" + std::to_string(semaphore++) + "_WAIT_EQ_1"});
  };
  for (const PhaseTime& p : timing.phases) {
    if (p.phase != CollectivePhase::kData) {
      wait(p.start, p.end);
      continue;
    }
    const Fs advanced = std::min(p.end, p.start + config.instruction);
    list.push_back({p.start, advanced, core, "DMA_ADVANCE"});
    wait(advanced, p.end);
  }
  return list;
}

}  // namespace nkisim::models
