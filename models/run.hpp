// The cores of a program on one chip, run to the end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "isa/undefined.hpp"
#include "models/config.hpp"
#include "models/observer.hpp"

namespace nkisim::models {

struct RunOptions {
  isa::Unwritten unwritten = isa::Unwritten::kError;
  isa::UndefinedSink undefined_output = {};  // null: what is undefined in an output is thrown
  isa::PrintSink print = {};
  std::optional<std::uint32_t> stochastic_rounding = {};  // seed; none: nearest even
  /// Called now and then with the instructions finished and the simulated time; false stops.
  std::function<bool(std::uint64_t, Fs)> progress = {};
};

struct RunResult {
  Fs end = 0;                      // last instruction or transfer; of a stopped run, the last begun
  std::uint64_t instructions = 0;  // dynamic
  bool stopped = false;            // by the progress callback
};

/// Simulates all cores of `program` on the chip described by `config`. `memory` null: timing only,
/// nothing is computed. Throws Error located in the program: bad data, a rule broken at run time,
/// or a deadlock that names who waits for what.
RunResult run(const isa::Program& program, const Config& config, isa::Memory* memory,
              const ObserverList& observers, const RunOptions& options = {});

}  // namespace nkisim::models
