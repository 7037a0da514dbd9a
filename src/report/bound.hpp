// Says what bounds a run: what its critical path was spent on, what to do, and what that can save.
// All commands, reports and bindings print this one answer.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/report/accounting.hpp"

namespace nkisim {

/// The use of a piece of the critical path.
enum class Spent : std::uint8_t {
  kEngine,      // an engine at work
  kStarts,      // an engine starting DMAs, from what they waited for on
  kLatency,     // a DMA before its first packet and after its last
  kMoving,      // DMAs moving data, or waiting for DMA engines that move other data
  kSemaphores,  // a result's way to the engine that waits for it
  kIssue,       // the sequencer, and the start of the run
  kCollective,  // an operation between ranks
  kRanks,       // waiting for another rank to come to one
  kCores,       // waiting for the other core
};

/// The part of a critical path that was spent on one thing.
struct PathShare {
  Spent on = Spent::kIssue;
  isa::Engine engine = isa::Engine::kAny;  // of kEngine and kStarts
  models::Fs time = 0;
  std::int64_t count = 0;  // instructions, transfers or waits
};
/// "Vector at work", "Sync starting DMAs", "DMA latency", ...
[[nodiscard]] std::string describe(const PathShare& share);

/// The critical path of a core by what it was spent on, the longest first. What began before `from`
/// is left out.
[[nodiscard]] std::vector<PathShare> path_shares(const Accounting& accounting, int core,
                                                 models::Fs from = 0);

/// The work of a core, as far as it decides what can be saved.
struct CoreWork {
  models::Fs latency = 0;
  std::array<models::Fs, isa::kEngineCount> active{};     // by engine
  std::array<models::Fs, isa::kEngineCount> streaming{};  // ... of it, one element a cycle
  models::Fs dma = 0;                                     // that the DMA engines work, on average
  models::Fs dma_ideal = 0;                               // ... if all packets were long
  std::int64_t bytes = 0, packets = 0;
};

/// The answer: one share of the critical path, and the most that its removal can save.
struct Bound {
  PathShare share = {};
  double path = 0;    // its part of the critical path
  double gain = 0;    // at most, of the latency
  std::string cause;  // "256 DMA starts of 0.560 us on SyncEngine"
  std::string cure;   // "fewer and larger DMAs"
  bool many = false;  // the cure is a plural, so the line says "save"
  /// Cause, part of the path, cure and gain in one line. Empty: nothing ran.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] nlohmann::ordered_json json() const;
};
/// Chooses the share whose removal can save most.
[[nodiscard]] Bound bound_of(const std::vector<PathShare>& shares, const CoreWork& work);

}  // namespace nkisim
