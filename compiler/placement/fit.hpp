// Finds an instruction order whose tiles fit SBUF and PSUM, and assigns their addresses.
#pragma once

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// If the tiles do not fit as the program is written, the first of the orders of
/// memory_saving_order.hpp that fits, then the same with narrow tensors side by side, becomes the
/// program's: unit.delay and unit.packed say which. Throws isa::Error if none does; a legacy
/// kernel, whose compiler would have spilled, or with over_capacity "warn", runs over capacity
/// then, and unit.overflow says so. Programs that are placed already stay as they are.
PassResult fit(Unit& unit);

/// Gives the tiles their addresses, where the schedule has not already.
PassResult place(Unit& unit);

}  // namespace nkisim::compiler
