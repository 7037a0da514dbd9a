// Describes the times of a collective operation, for the whole group and for each rank.
#pragma once

#include <string>

#include "models/collective/flows.hpp"
#include "models/collective/request.hpp"

namespace nkisim::models {

/// The state of a rank within an operation.
enum class CollectivePhase : std::uint8_t {
  kWaiting,    // for the last of the ranks whose data it needs
  kHandshake,  // buffers are announced as free
  kStep,       // latency of steps: semaphores between CC-cores
  kData,       // bytes move
};

struct PhaseTime {
  CollectivePhase phase{};
  Fs start = 0, end = 0;
};

/// An operation as one rank sees it. Its duration, end - start, contains waiting for later ranks.
struct RankTiming {
  Fs triggered = 0;
  Fs start = 0;  // on its CC-core: trigger delay, and the stream's previous operation, are over
  Fs ready = 0;  // the last rank that it needs has started
  Fs end = 0;
  int waited_for = -1;              // world rank of that one; -1: this rank was the last itself
  std::vector<PhaseTime> phases{};  // without gaps from start to end
};

/// One part of an operation after the other: latency, then data.
struct CollectivePart {
  Algorithm algorithm{};  // whose constants it has
  bool reduces = false;
  int steps = 0;
  Fs latency = 0;
  Fs data = 0;  // if nothing else needs the servers
};

struct CollectiveTiming {
  Algorithm algorithm{};
  int steps = 0;
  std::int64_t input_bytes = 0, output_bytes = 0;  // of one rank, the largest
  std::vector<RankTiming> ranks{};                 // by position
  std::vector<CollectivePart> parts{};             // of a group's operation
  std::vector<ServerLoad> loads{};                 // all ranks together
};

/// One rank's part of an operation, once the rank has finished it.
struct RankPart {
  int id = 0;  // of the operation, the same on all its ranks
  CollectiveKind kind{};
  Algorithm algorithm{};
  isa::Dtype dtype{};
  int stream = 0;
  std::vector<int> group{};
  std::int64_t input_bytes = 0, output_bytes = 0;
  RankTiming timing{};
};

/// An instruction of a CC-core for an operation, with the profiler's names.
struct CcInstruction {
  Fs start = 0, end = 0;
  int core = 0;  // of the chip
  std::string description;
};

/// The CC-cores of a rank, on its chip. The first serves stream 0, the last stream 1, the one
/// before it stream 2, and so on; what no stream has for itself belongs to stream 0.
[[nodiscard]] std::vector<int> cc_cores(const TopologyConfig& topology, int lnc, int rank);
/// The one that drives a stream of the rank.
[[nodiscard]] int cc_core(const TopologyConfig& topology, int lnc, int rank, int stream);
/// "[[0, 1, 2, 3]]", as profiles write a group.
[[nodiscard]] std::string group_text(const std::vector<int>& ranks);
/// Waits for semaphores, and a DMA_ADVANCE before the data of each part (assumed: of a real program
/// only some names and durations are published).
[[nodiscard]] std::vector<CcInstruction> cc_instructions(const RankTiming& timing,
                                                         const CollectiveConfig& config, int core);

}  // namespace nkisim::models
