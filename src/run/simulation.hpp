// Declares simulate(), which simulates one program with timing.
#pragma once

#include "isa/machine/memory.hpp"
#include "models/run.hpp"

namespace nkisim {

struct SimResult {
  models::Fs end = 0;              // first instruction's earliest start (0) to the last end
  std::uint64_t instructions = 0;  // dynamic
  bool partial = false;            // stopped by the progress callback
};

/// Throws isa::Error if `config` describes another generation than the program's.
void check_config(const isa::Program& program, const models::Config& config);
/// Runs `program` on the chip of `config`; `memory` holds its inputs and receives its outputs.
/// Null: only time, no instruction computes anything, and control flow or addresses that come from
/// memory are an error. Throws isa::Error located in the program.
SimResult simulate(const isa::Program& program, const models::Config& config, isa::Memory* memory,
                   const std::vector<models::Observer*>& observers = {},
                   const models::RunOptions& options = {});

}  // namespace nkisim
