// Compiler pass `clears`: removes memsets of PSUM whose bytes the next matmuls overwrite anyway.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Clears of PSUM tensors (`placed` false) whose every byte the tensor engine overwrites before any
/// other access, within one stretch without control flow. `operands` are the program's.
std::vector<std::uint32_t> dead_clears(const isa::Program& program, const isa::Operands& operands,
                                       const std::vector<bool>& placed);

/// Drops them if the switch `clears` says so. Programs with control flow or explicit semaphores
/// stay as they are.
PassResult clears(Unit& unit);

}  // namespace nkisim::compiler
