// Declares simulate(), which simulates one program with timing.
#pragma once

#include "isa/machine/memory.hpp"
#include "models/run.hpp"

namespace nkisim {

struct SimOptions {
  /// Only time: no instruction computes anything. Not possible where control flow or addresses
  /// come from memory.
  bool timing_only = false;
  isa::Conditions conditions = {};
  const isa::SemaphoreNames* semaphore_names = nullptr;  // for messages
  std::vector<models::Observer*> observers = {};
  /// Called now and then with dynamic instructions done and simulated time; false stops the run.
  std::function<bool(std::uint64_t instructions, models::Fs now)> progress = {};
};

struct SimResult {
  models::Fs end = 0;              // first instruction's earliest start (0) to the last end
  std::uint64_t instructions = 0;  // dynamic
  bool partial = false;            // stopped by the progress callback
};

/// Throws isa::Error if `config` describes another generation than the program's.
void check_config(const isa::Program& program, const models::Config& config);
/// The options without observers and without timing_only, as the models want them.
[[nodiscard]] models::RunOptions run_options(const SimOptions& options);

/// Runs `program` on the chip of `config`; `memory` holds its inputs and receives its outputs, and
/// may be null for a timing-only run. Throws isa::Error located in the program.
SimResult simulate(const isa::Program& program, const models::Config& config, isa::Memory* memory,
                   const SimOptions& options = {});

}  // namespace nkisim
