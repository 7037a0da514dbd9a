// Executes a program and lists its executed steps in order, as input of the race check.
//
// A meeting is an instruction at which several cores wait for one another.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "isa/program/footprint.hpp"
#include "isa/world/interpreter.hpp"

namespace nkisim::checks {

inline constexpr std::uint32_t kNone = 0xFFFFFFFFU;

/// One execution of one instruction; control flow is left out.
struct Step {
  const isa::Inst* inst = nullptr;
  std::uint32_t number = 0;     // among those of its engine, from 1
  std::uint32_t queue = kNone;  // of a DMA: index in Stream::queues
  std::uint32_t transfer = 0;   // of a DMA: number in its queue, from 1
  std::uint32_t dynamic =
      kNone;                     // first of its operands with run-time addresses, in Stream::places
  bool same = false;             // what it wrote to HBM had been there before (with values only)
  std::uint32_t collective = 0;  // which of its core's collectives this is, from 1; 0: none
  std::uint32_t holder = kNone;  // step that loaded the registers it was issued with
};

/// The places of one operand with a run-time address: several footprints for gathered rows.
using Places = std::vector<isa::Footprint>;

/// A queue of DMAs: one engine triggers them, in its order.
struct DmaQueue {
  std::uint8_t core = 0;
  isa::Engine engine = isa::Engine::kSync;
  std::string name;  // empty: the engine's own
};

/// The record of an execution.
struct Stream {
  std::vector<Step> steps;     // in program order; cores one after the other between meetings
  std::vector<Places> places;  // operands with run-time addresses, in the order of their steps
  std::vector<DmaQueue> queues;
  /// The treatment of addresses that only memory knows.
  enum class Unknown : std::uint8_t { kNothing, kWholeTensor, kLeftOut };
  Unknown unknown = Unknown::kNothing;
  bool values = false;  // whether they were computed
  /// Tensors in HBM that every core writes, the same values to the same places in the same order
  /// between the same meetings: whose write comes last makes no difference (with values only).
  std::set<std::uint32_t> alike;
  bool cut = false;  // at kMostSteps: what comes after was not executed
};
/// Thrown within a check whose caller wants no more of it (InterpretOptions::progress).
struct Stopped {};

inline constexpr std::size_t kMostSteps = 20'000'000;

/// Says which parts of a program depend on values in memory: its control flow, its addresses.
struct ValueNeeds {
  bool control = false, addresses = false;
};
[[nodiscard]] ValueNeeds needs_values(const isa::Program& program);

/// Executes `program` and notes what it does. With `memory` (inputs already loaded) values are
/// computed and every address is known; without, only registers are, which needs
/// !needs_values().control, and `unknown` says what to do about addresses in memory. Throws Error
/// as isa::interpret does.
[[nodiscard]] Stream record(const isa::Program& program, isa::Memory* memory,
                            Stream::Unknown unknown, isa::InterpretOptions options = {});

}  // namespace nkisim::checks
