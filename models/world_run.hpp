// What the devices of a world need of it: the memory that they share, and the way to other ranks.
#pragma once

#include <map>

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
  isa::World world_;
  const Config& config_;
  SimSession& session_;

 private:
  std::map<int, Hbm> stacks_;
};

}  // namespace nkisim::models
