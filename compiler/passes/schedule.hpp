// Compiler pass `schedule`: orders the instructions of a program with a list scheduler.
#pragma once

#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

struct ScheduleOptions {
  std::size_t window = 4096;  // how many instructions it looks past the first that is left
  /// On-chip tensors whose address is final, by id; the others will be given one afterwards and
  /// have storage of their own until then. Empty: all are final.
  std::vector<bool> placed = {};
  double share = 1;      // of SBUF that tiles without an address may fill
  bool balance = false;  // open copies go to VectorE or ScalarE (engines.hpp)
  bool packed = false;   // narrow tiles lie side by side: they count by the quadrants they take
};

struct Schedule {
  std::vector<std::uint32_t> order;           // the k-th instruction is the program's order[k]-th
  std::size_t moved = 0;                      // instructions that overtake an earlier one
  std::vector<std::uint32_t> to_scalar = {};  // by number in the program: copies given to ScalarE
};

/// Orders every stretch of instructions without control flow, rendezvous or register writes: each
/// engine takes the oldest instruction whose operands are ready (by estimated time), so loads run
/// ahead as far as memory lasts and independent chains interleave. Reads and writes of the same
/// bytes, and instructions that share an engine's state, keep their order, so the program computes
/// the same bits. A program with explicit semaphores is left as it is.
[[nodiscard]] Schedule schedule(const isa::Program& program, const models::Config& config,
                                const ScheduleOptions& options = {});

/// The same; `uses` are the program's as it is.
[[nodiscard]] Schedule schedule(const isa::Program& program, const isa::Uses& uses,
                                const models::Config& config, const ScheduleOptions& options);

/// Orders the program if the switch `schedule` says so. Where the tiles have no address yet they
/// may fill as much of SBUF as can then be placed; if they fit in no such order the program keeps
/// its own.
PassResult schedule(Unit& unit);

}  // namespace nkisim::compiler
