// Removes a DMA load that repeats an earlier load made by the same source line of the kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Tiles that one statement of the kernel (file and line) loads from HBM with what it has loaded
/// into an earlier tile: their readers read the earlier tile. Loads of different statements stay,
/// and so does what is computed from them. All of a program's repeats or none: none if they keep
/// more than `most_kept` bytes of a partition alive, if the tiles would fill more than `budget`, or
/// if the program moves a single row (one partition) between HBM and SBUF. Returns the instructions
/// to remove, ascending. `placed` as for Hazards. For programs without control flow.
std::vector<std::uint32_t> share_loads(isa::Program& program, const std::vector<bool>& placed,
                                       const isa::Uses& uses, const Values& values,
                                       std::int64_t budget, std::int64_t most_kept);

}  // namespace nkisim::compiler
