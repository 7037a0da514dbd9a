// Compiler pass `merge`: makes one instruction of several copies from PSUM to SBUF.
#pragma once

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Tiles that TensorE leaves in PSUM, from one line of the kernel, and that are copied side by side
/// into one tile of SBUF, share a bank and leave it by one copy, as many as the bank holds: where
/// each has no other reader, and nothing reads or writes what is copied between the first copy and
/// the last.
PassResult merge(Unit& unit);

}  // namespace nkisim::compiler
