// Finds data races: two accesses to the same bytes, one of them a write, in no certain order.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checks/order.hpp"
#include "checks/overlap.hpp"
#include "isa/program/disasm.hpp"

namespace nkisim::checks {

enum class Hazard : std::uint8_t { kReadAfterWrite, kWriteAfterRead, kWriteAfterWrite };
[[nodiscard]] std::string_view name(Hazard hazard);  // "RAW", "WAR", "WAW"

/// Two instructions of the program between which order is missing.
struct Race {
  Hazard hazard = Hazard::kReadAfterWrite;
  const isa::Inst* first = nullptr;  // in program order
  const isa::Inst* second = nullptr;
  std::uint32_t first_step = 0, second_step = 0;  // instructions executed before, the first time
  const isa::TensorRef* first_operand = nullptr;
  const isa::TensorRef* second_operand = nullptr;
  Bytes bytes;              // of the first time
  std::uint64_t count = 0;  // how many times, over all executions
  bool transfers = false;   // both are DMAs of one queue, which starts them before earlier ones end
  /// Waits of the second instruction that would order them (any of them); empty: the first posts to
  /// no semaphore shows it.
  std::vector<isa::SemaphoreWait> waits;
};

struct RaceReport {
  std::vector<Race> races;  // in program order of the second instruction, at most kMostRaces
  std::vector<DeadlockedEngine>
      stuck;                // engines that never get on: nothing behind them was looked at
  std::uint64_t pairs = 0;  // of instructions, also those not listed
  std::uint64_t steps = 0;  // instructions executed
  bool unsure = false;      // writes of two cores met: whether of different values, values decide
  bool stopped = false;     // options.progress said so: nothing else is known
  bool cut = false;         // only the first kMostSteps instructions were looked at
  Stream::Unknown unknown = Stream::Unknown::kNothing;
  [[nodiscard]] bool clean() const { return races.empty() && stuck.empty(); }
};
inline constexpr std::size_t kMostRaces = 100;

/// True if a program can have races: one core whose semaphores are derived from its operands
/// cannot.
[[nodiscard]] bool may_race(const isa::Program& program);

/// Checks a program as it stands. `load` makes its memory with inputs; it is called only where
/// control flow depends on values, or an address that only memory knows decides. Without it (or if
/// the program is timing_only) such operands are left out, and values that decide are an Error.
/// options.progress is asked with instructions executed while they are, and with 0 afterwards.
/// Throws Error as isa::interpret does.
using MakeMemory = std::function<std::unique_ptr<isa::Memory>()>;
[[nodiscard]] RaceReport find_races(const isa::Program& program, const MakeMemory& load,
                                    const isa::InterpretOptions& options = {});

/// Describes a race or a stuck engine in a few lines, without the place of the second instruction,
/// which an Error carries. `names`: of semaphores.
[[nodiscard]] std::string describe(const isa::Program& program, const Race& race,
                                   const isa::SemaphoreNames& names = {});
[[nodiscard]] std::string describe(const isa::Program& program, const DeadlockedEngine& stuck,
                                   const isa::SemaphoreNames& names = {});
/// An Error for the first finding, located at its instruction, that says how many more there are.
[[nodiscard]] isa::Error race_error(const isa::Program& program, const RaceReport& report,
                                    const isa::SemaphoreNames& names = {});

}  // namespace nkisim::checks
