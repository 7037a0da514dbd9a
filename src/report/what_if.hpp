// Finds the gain of a change of the machine (a faster engine or DMA) by simulating again with it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "isa/machine/memory.hpp"
#include "isa/program/program.hpp"
#include "models/config.hpp"
#include "models/time.hpp"

namespace nkisim {

struct WhatIf {
  std::string change;  // "DMA engines were twice as fast"
  models::Fs end = 0;
  double gain = 0;  // fraction of the total time that is saved; negative if it got slower
};

/// Gives the memory a run starts from; for programs whose control flow or addresses depend on data.
using MakeMemory = std::function<std::unique_ptr<isa::Memory>()>;

/// Every change the chip's config can express, best first. `end` is the unchanged run's.
/// The runs compute nothing where the unchanged program takes the same time without values; else
/// `make_memory` gives each its data. Without values they run in as many copies of this process as
/// there are processors. `progress` gets runs done and all, now and then, and returns false to
/// stop: the changes simulated so far are then the result.
[[nodiscard]] std::vector<WhatIf> what_if(const isa::Program& program, const models::Config& config,
                                          models::Fs end, const MakeMemory& make_memory,
                                          const std::function<bool(int, int)>& progress = {});

}  // namespace nkisim
