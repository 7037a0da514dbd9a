// Models the chips on which the ranks run: each holds HBM stacks and CC-cores (for collectives).
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "isa/program/world.hpp"
#include "models/chip/collective_core.hpp"
#include "models/chip/hbm_stack.hpp"
#include "models/config.hpp"
#include "models/module_list.hpp"

namespace nkisim::models {

/// One chip, as far as ranks of this process use it.
class Chip : public sc_core::sc_module {
 public:
  [[nodiscard]] const char* kind() const override { return "Chip"; }
  struct Stack {
    int number = 0;     // on the chip
    int engines = 0;    // that can reach it
    double demand = 0;  // of all of them, bytes per ns
  };
  Chip(const sc_core::sc_module_name& name, const Config& config, const std::vector<Stack>& stacks,
       const std::vector<int>& cc_cores, const TieRule& tie);
  [[nodiscard]] HbmStack& stack(int number) { return *stacks_.at(number); }
  [[nodiscard]] CollectiveCore& cc_core(int number) { return *cc_cores_.at(number); }

 private:
  ModuleList<sc_core::sc_module> modules_;
  std::map<int, HbmStack*> stacks_;
  std::map<int, CollectiveCore*> cc_cores_;
};

/// All chips on which ranks of this process are, each of which has its stack and its CC-cores.
class Chips {
 public:
  /// `ranks`: those of this process, ascending; each runs on `cores` cores. `passes`: how often a
  /// byte of a transfer crosses the stack at most, 2 where there are copies within HBM.
  Chips(std::reference_wrapper<const Config> config, const isa::World& world, int cores,
        std::span<const int> ranks, const TieRule& tie, int passes = 1);
  [[nodiscard]] hbm_if& stack(int rank);
  /// The one that drives a stream of a rank.
  [[nodiscard]] CollectiveCore& cc_core(int rank, int stream);
  /// CC-cores of a rank; empty if the rank is alone in its world.
  [[nodiscard]] std::vector<CollectiveCore*> cc_cores(int rank);

 private:
  struct Place {
    int chip = 0, stack = 0;  // ... of the chip
  };
  [[nodiscard]] Place place(int rank) const;
  const Config& config_;
  int cores_, ranks_per_stack_, ranks_per_chip_;
  bool collectives_;
  ModuleList<Chip> modules_;
  std::map<int, Chip*> chips_;
};

}  // namespace nkisim::models
