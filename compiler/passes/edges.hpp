// Compiler pass `edges`: applies the instruction order that a kernel asks for (with_schedule,
// depends_on, no_reorder).
#pragma once

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Checks what the kernel asks for, and moves an instruction that is to follow a later one behind
/// it, others only as far as that needs. Every pass after it keeps the order. Throws isa::Error if
/// the order is a circle, alone or with the dependences of memory, or would pass a loop, a branch,
/// a register write or a meeting of cores.
PassResult edges(Unit& unit);

}  // namespace nkisim::compiler
