// What the devices of a world need of it: the memory that they share, and the way to other ranks.
#pragma once

#include <map>
#include <vector>

#include "isa/world/exchange.hpp"
#include "models/collective/collective.hpp"
#include "models/dma/hbm.hpp"
#include "models/operation.hpp"
#include "models/run.hpp"
#include "models/sim_session.hpp"

namespace nkisim::models {

class Device;

class WorldRun : public sc_core::sc_module {
 public:
  WorldRun(sc_core::sc_module_name name, const isa::World& world, const Config& config,
           SimSession& session);
  /// The HBM stack that a rank of so many cores reaches, and those beside it that share it.
  [[nodiscard]] Hbm& stack(int rank, int cores);
  /// A core of a rank has triggered a collective; the instruction ends at `at`.
  virtual void trigger(Device& device, std::size_t core, Operation& op, Fs at) = 0;

 protected:
  /// What an operation begins to move at `now` takes its part of the stack that the device's own
  /// transfers use, and of its DMA engines.
  void share_memory(Device& device, const Collectives::Moving& moving, Fs now) const;
  /// A call of a device's cores has ended; `part`: null if it needed nobody.
  static void finish(Device& device, const std::vector<Operation*>& operations, Fs end,
                     const RankPart* part);
  /// After the last event: throws Error if a rank is left at a collective.
  static void check_nobody_waits(const std::vector<isa::WaitingRank>& waiting);

  isa::World world_;
  const Config& config_;
  SimSession& session_;

 private:
  std::map<int, Hbm> stacks_;
};

}  // namespace nkisim::models
