// Compiler pass `share`: removes a tile that is loaded or computed although another holds the same.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Tiles of SBUF that are filled with what another tile held before (analysis/values), by any
/// number of loads, products and other instructions: their readers read the earlier tile, as far as
/// the SBUF budget (`budget` bytes of every partition) allows its longer lifetime, and
/// what filled them, and nothing else needs, is not done. Chains count from their end: if the
/// result is shared, its operands need not be. Of the tiles that one loop fills again, the first
/// ones that the budget allows are kept; `all_of_loop`: all or none. Returns the
/// instructions to remove, ascending. `placed` as for Hazards. For programs without control flow.
std::vector<std::uint32_t> share_tiles(isa::Program& program, const std::vector<bool>& placed,
                                       const isa::Uses& uses, const Values& values,
                                       std::int64_t budget, bool all_of_loop = true);

/// True if the switch `share` asks for it in this program.
[[nodiscard]] bool shares(const Unit& unit);

/// Removes them if the switch says so. Three quarters of SBUF are the budget; the rest is the
/// scheduler's.
PassResult share(Unit& unit);

}  // namespace nkisim::compiler
