// Assigns addresses to tensors in SBUF and PSUM.
#pragma once

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Gives every on-chip tensor that is used and has no address one, by the program's present order,
/// and notes the peaks. unit.packed: narrow ones may be put side by side; `thorough` as for
/// allocate(). Throws isa::Error at the line of the tensor that does not fit, which lists the
/// largest live tensors.
void place_tensors(Unit& unit, bool thorough);

/// True if place_tensors would find addresses for all.
[[nodiscard]] bool can_be_placed(Unit& unit);

}  // namespace nkisim::compiler
