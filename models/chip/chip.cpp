// Builds the HBM stacks and CC-cores (for collectives) of the chips that the ranks of this process
// use.
#include "models/chip/chip.hpp"

#include <algorithm>
#include <string>

#include "models/run.hpp"

namespace nkisim::models {

int ranks_per_stack(const Config& config, int cores) {
  return std::max(1, config.topology.cores_per_stack / std::max(1, cores));
}

Chip::Chip(const sc_core::sc_module_name& name, const Config& config,
           const std::vector<Stack>& stacks, const std::vector<int>& cc_cores, const TieRule& tie)
    : sc_module(name) {
  for (const Stack& s : stacks) {
    auto stack = std::make_unique<HbmStack>(("hbm" + std::to_string(s.number)).c_str(), config.hbm,
                                            s.demand, s.engines, tie);
    stacks_[s.number] = stack.get();
    modules_.push_back(std::move(stack));
  }
  for (const int number : cc_cores) {
    auto core = std::make_unique<CollectiveCore>(("cc" + std::to_string(number)).c_str(),
                                                 config.collectives);
    cc_cores_[number] = core.get();
    modules_.push_back(std::move(core));
  }
}

Chips::Chips(std::reference_wrapper<const Config> config, const isa::World& world, int cores,
             std::span<const int> ranks, const TieRule& tie, int passes)
    : config_(config),
      cores_(std::max(1, cores)),
      ranks_per_stack_(ranks_per_stack(config, cores)),
      ranks_per_chip_(std::max(1, config.get().topology.cores_per_chip / cores_)),
      collectives_(world.ranks > 1 && config.get().topology.cc_cores_per_core > 0 &&
                   cores_ <= config.get().topology.cores_per_chip) {
  struct Parts {
    std::map<int, Chip::Stack> stacks;
    std::vector<int> cc_cores;
  };
  std::map<int, Parts> chips;
  for (const int rank : ranks) {
    const Place at = place(rank);
    Parts& parts = chips[at.chip];
    const int first = at.chip * ranks_per_chip_ + at.stack * ranks_per_stack_;
    const int sharing = std::max(1, std::min(ranks_per_stack_, world.ranks - first));
    const int engines = sharing * cores_ * config_.dma.engines;
    parts.stacks[at.stack] = {at.stack, engines, passes * engines * config_.dma.bytes_per_ns};
    if (!collectives_) continue;
    for (const int cc : models::cc_cores(config_.topology, cores_, rank)) {
      parts.cc_cores.push_back(cc);
    }
  }
  const bool several = world.ranks > ranks_per_chip_;
  for (const auto& [number, parts] : chips) {
    std::vector<Chip::Stack> stacks;
    for (const auto& [at, stack] : parts.stacks) stacks.push_back(stack);
    const std::string name = several ? "chip" + std::to_string(number) : "chip";
    modules_.push_back(std::make_unique<Chip>(name.c_str(), config, stacks, parts.cc_cores, tie));
    chips_[number] = modules_.back().get();
  }
  for (const int rank : ranks) {
    for (CollectiveCore* cc : cc_cores(rank)) cc->hbm.bind(stack(rank));
  }
}

Chips::Place Chips::place(int rank) const {
  return {rank / ranks_per_chip_, rank % ranks_per_chip_ / ranks_per_stack_};
}

hbm_if& Chips::stack(int rank) {
  const Place at = place(rank);
  return chips_.at(at.chip)->stack(at.stack);
}

CollectiveCore& Chips::cc_core(int rank, int stream) {
  return chips_.at(place(rank).chip)
      ->cc_core(models::cc_core(config_.topology, cores_, rank, stream));
}

std::vector<CollectiveCore*> Chips::cc_cores(int rank) {
  std::vector<CollectiveCore*> list;
  if (!collectives_) return list;
  for (const int cc : models::cc_cores(config_.topology, cores_, rank)) {
    list.push_back(&chips_.at(place(rank).chip)->cc_core(cc));
  }
  return list;
}

}  // namespace nkisim::models
