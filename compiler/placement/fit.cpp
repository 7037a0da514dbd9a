// Finds an instruction order whose tiles fit SBUF and PSUM (pass `fit`), by this algorithm:
//
//   keep the program's own order if its tiles can be placed
//   for narrow tensors as they are, then side by side:
//     for each delay of memory_saving_order: keep the order if its tiles can be placed
//   spill, for kernels of one core without control flow:
//     share equal tiles without a limit: spilling brings back tiles that live too long
//     for each share of SBUF: try the orders from the fewest bytes moved to the most,
//       and keep the first whose tiles can be placed
//   else report the shortage of the own order, or run over capacity where that is allowed
#include "compiler/placement/fit.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "compiler/passes/deduplicate_tiles.hpp"
#include "compiler/passes/memory_saving_order.hpp"
#include "compiler/passes/order.hpp"
#include "compiler/passes/spill.hpp"
#include "compiler/placement/place.hpp"

namespace nkisim::compiler {
namespace {

// The shares of SBUF that tiles may fill when some are spilled. The next is tried where tiles
// cannot be placed.
constexpr std::array kSpillShares = {0.75, 0.6, 0.95};

// True if the tiles fit in the program's present order; else `problem` says why not.
bool fits(Unit& unit, std::optional<isa::Error>& problem) {
  try {
    place_tensors(unit, true);
    return true;
  } catch (const isa::Error& e) {
    problem = e;
    return false;
  }
}

// A tile that is larger than its memory fits in no order, and spilling does not help.
void refuse_too_large(Unit& unit) {
  const isa::Program& program = unit.program;
  const isa::Uses& uses = unit.uses();
  const isa::Machine& machine = program.machine();
  for (std::uint32_t i = 0; i < program.tensors().size(); ++i) {
    const isa::Tensor& t = program.tensors()[i];
    if (t.space == isa::Space::kHbm || !uses.any(i)) continue;
    const bool sbuf = t.space == isa::Space::kSbuf;
    const std::int64_t most = sbuf ? machine.sbuf_partition_bytes : machine.psum_partition_bytes;
    if (t.extent_bytes() <= most) continue;
    isa::Error e(isa::Rule::tile_too_large,
                 t.name + " has " + std::to_string(t.extent_bytes()) +
                     " bytes per partition; at most " + std::to_string(most) + ", all of " +
                     (sbuf ? "SBUF" : "PSUM") + ", is required of one tile" +
                     changed_note(machine, sbuf ? "sbuf_partition_bytes" : "psum_partition_bytes"));
    e.at("ndarray", {.kernel_file = t.file, .kernel_line = t.line});
    program.locate(e);
    throw e;
  }
}

std::string megabytes(std::int64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

// An order that spilling starts from; none: the program's own.
using SpillOrder = std::optional<Delay>;

struct SpillAttempt {
  SpillOrder order;
  std::int64_t bytes = 0;  // that move
};

std::string_view name(const SpillOrder& order) { return order ? name(*order) : "own"; }

void reorder(Unit& unit, const std::vector<bool>& placed, const SpillOrder& order) {
  if (order) unit.reorder(memory_saving_order(unit.program, placed, unit.uses(), *order));
}

std::optional<Spilled> spill_to(Unit& unit, const std::vector<bool>& placed, double share) {
  const auto bytes = static_cast<double>(unit.program.machine().sbuf_partition_bytes);
  return spill_tiles(unit.program, placed, unit.uses(), static_cast<std::int64_t>(share * bytes));
}

// All orders, that in which fewest bytes move first.
std::vector<SpillAttempt> spill_attempts(Unit& unit, const std::vector<bool>& placed,
                                         double share) {
  std::vector<SpillOrder> orders = {std::nullopt};
  orders.insert(orders.end(), kDelays.begin(), kDelays.end());
  std::vector<SpillAttempt> found;
  const isa::Program::Version own = unit.program.version();
  for (const SpillOrder& order : orders) {
    reorder(unit, placed, order);
    const std::optional<Spilled> spilled = spill_to(unit, placed, share);
    if (spilled) found.push_back({order, spilled->bytes()});
    unit.program.restore(own);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const SpillAttempt& a, const SpillAttempt& b) { return a.bytes < b.bytes; });
  return found;
}

PassResult done_by(const Spilled& spilled, std::string_view delay) {
  return {spilled.transfers, "delay=" + std::string(delay) + ", " + megabytes(spilled.saved) +
                                 " spilled, " + megabytes(spilled.reloaded) + " reloaded, " +
                                 megabytes(spilled.again) + " loaded again"};
}

// Spills in the first order and share of SBUF that work, those with the least overflow first.
std::optional<PassResult> spill(Unit& unit) {
  isa::Program& program = unit.program;
  if (unit.choices.spill == Spill::k_none || !unit.may_drop() || program.cores() > 1) {
    return std::nullopt;
  }
  const std::vector<bool> placed = unit.final_addresses();
  const isa::Program::Version kernels = program.version();
  if (shares(unit)) {  // what it keeps alive too long comes back from memory as well
    program.remove(share_tiles(program, placed, unit.uses(), unit.values(),
                               std::numeric_limits<std::int64_t>::max() / 2));
  }
  const isa::Program::Version own = program.version();
  for (const double share : kSpillShares) {
    for (const SpillAttempt& attempt : spill_attempts(unit, placed, share)) {
      reorder(unit, placed, attempt.order);
      const std::optional<Spilled> spilled = spill_to(unit, placed, share);
      std::optional<isa::Error> problem;
      if (spilled && fits(unit, problem)) {
        unit.delay = name(attempt.order);
        return done_by(*spilled, unit.delay);
      }
      program.restore(own);
    }
  }
  program.restore(kernels);
  return std::nullopt;
}

}  // namespace

PassResult fit(Unit& unit) {
  if (!unit.origin.open) return {0, "addresses are given"};
  std::optional<isa::Error> problem, next;
  if (fits(unit, problem)) return {0, "the program's own order fits"};
  const std::vector<bool> placed = unit.final_addresses();
  std::size_t tried = 0;
  for (const bool packed : {false, true}) {
    unit.packed = packed;
    for (const Delay delay : kDelays) {
      const Order order(unit, memory_saving_order(unit.program, placed, unit.uses(), delay));
      ++tried;
      if (fits(unit, next)) {
        unit.delay = name(delay);
        return {tried, "delay=" + std::string(unit.delay) +
                           (packed ? ", narrow tensors side by side," : "") + " fits"};
      }
      order.undo();
    }
  }
  unit.packed = false;
  if (const std::optional<PassResult> spilled = spill(unit)) return *spilled;
  if (!unit.origin.legacy && unit.choices.over_capacity != OverCapacity::k_warn) throw *problem;
  if (unit.choices.over_capacity == OverCapacity::k_no) refuse_too_large(unit);
  unit.overflow = problem;
  unit.over_capacity = true;
  place_tensors(unit, true);
  return {tried, "none fits; runs over capacity"};
}

PassResult place(Unit& unit) {
  if (!unit.origin.open) return {};
  if (!unit.placed) place_tensors(unit, true);
  unit.placed = true;
  PassResult done;
  for (const isa::Tensor& t : unit.program.tensors()) {
    if (t.space != isa::Space::kHbm && !t.fixed) ++done.changed;
  }
  for (const MemoryPeak& peak : unit.peaks) {
    const bool sbuf = peak.space == isa::Space::kSbuf;
    const isa::Machine& m = unit.program.machine();
    done.text += (done.text.empty() ? "" : ", ") + std::string(sbuf ? "SBUF" : "PSUM") + " core " +
                 std::to_string(peak.core) + " " + std::to_string(peak.bytes) + " of " +
                 std::to_string(sbuf ? m.sbuf_partition_bytes : m.psum_partition_bytes) + " bytes";
  }
  return done;
}

}  // namespace nkisim::compiler
