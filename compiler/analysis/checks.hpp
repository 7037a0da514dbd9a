// Checks that the hints which the Python front end put into a program are true of its instructions.
#pragma once

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Throws isa::Error, located, unless every instruction marked `forward` copies a whole PSUM tensor
/// to a whole SBUF tensor, every tensor is allocated (born) before it is used, and, if the compiler
/// is to choose addresses, no explicit semaphores order uses of the tensors' own storage.
void check_recorded(Unit& unit);

}  // namespace nkisim::compiler
