// Provides a chip as one module for use inside another SystemC design (the host).
#pragma once

#include <exception>
#include <vector>

#include "isa/world/shard.hpp"
#include "models/elaboration.hpp"

namespace nkisim::models {

/// One module with all that a program runs on, in the host's context: the ranks with their
/// NeuronCores, the chips and the world. The host starts and ends the simulation, at any resolution
/// from 1 fs to 1 ps; times are in femtoseconds all the same. Nothing of SystemC's is set or reset.
///
/// Events fall on the next tick of the host.
///
/// Until elaboration ends the host may bind a port of any module within to a channel of its own,
/// also one that hands on to the model's: a probe. RunOptions::engine replaces an engine.
class HostedChip : public sc_core::sc_module {
 public:
  [[nodiscard]] const char* kind() const override { return "HostedChip"; }
  /// One rank on a chip of its own. `program`, `config`, `memory` (null: time only) and the
  /// observers outlive it. Throws Error as run() does, when it is constructed, when elaboration
  /// ends (the resolution), or from outcome().
  HostedChip(const sc_core::sc_module_name& name, const isa::Program& program, const Config& config,
             isa::Memory* memory = nullptr, const ObserverList& observers = {},
             const RunOptions& options = {});
  /// All ranks of a world, as for run_world(); without twins.
  HostedChip(const sc_core::sc_module_name& name, std::vector<RankSetup> ranks,
             const Config& config, const isa::World& world);

  [[nodiscard]] NeuronCore& core(std::size_t id = 0, std::size_t rank = 0);
  [[nodiscard]] Clock& clock() { return clock_; }

  /// Notified when nothing is left to happen: the program has ended, or cannot go on.
  [[nodiscard]] const sc_core::sc_event& finished_event() const { return finished_event_; }
  [[nodiscard]] bool finished() const { return finished_; }
  /// By rank; `stopped` if the program has not ended yet. Throws the Error that ended it.
  [[nodiscard]] std::vector<RunResult> outcome() const;

 private:
  void look();
  void finish();
  const std::vector<RankSetup> ranks_;
  const isa::World world_;
  const isa::Shard shard_ = {};
  HostClock clock_{"clock"};
  Elaboration elaboration_;
  std::vector<RunResult> results_;
  std::exception_ptr error_;
  sc_core::sc_event finished_event_{"finished"};
  bool finished_ = false;
};

}  // namespace nkisim::models
