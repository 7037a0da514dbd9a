// Spills tiles from SBUF to HBM and loads them back, where the live tiles exceed SBUF.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// The bytes of all partitions that spilling moves.
struct Spilled {
  std::int64_t saved = 0;     // stored to HBM because SBUF is full
  std::int64_t reloaded = 0;  // loaded back
  std::int64_t again = 0;     // of the program's own loads, done once more instead
  std::size_t transfers = 0;  // instructions added
  [[nodiscard]] std::int64_t bytes() const { return saved + reloaded + again; }
};

/// Lets the tiles of a program of one core fit `capacity` bytes of every partition of SBUF in the
/// order that it has: where a tile begins and SBUF is full, the one that is used latest leaves
/// (one that need not be stored counts twice as late), and comes back, as a tensor of its own,
/// before its next use. It is stored unless it still holds what was stored before, or what loads
/// from memory that nothing writes have filled it with, which are then done again. Nothing, and the
/// program is spoilt, if an instruction's own tiles do not fit or a tile that would have to leave
/// is not filled yet. `placed` as for Hazards; programs without control flow.
std::optional<Spilled> spill_tiles(isa::Program& program, const std::vector<bool>& placed,
                                   const isa::Uses& uses, std::int64_t capacity);

}  // namespace nkisim::compiler
