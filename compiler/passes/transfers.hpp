// Compiler pass `transfers`: makes one DMA of several that move neighbouring rows.
#pragma once

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Stores of one line of the kernel, or loads of what it stored, that reach whole rows of HBM (more
/// than one, of 256 bytes or more), each beginning where the one before ends, become one DMA of up
/// to 512 KiB: their tiles lie side by side in SBUF, what needs a load comes after all of it, and a
/// store goes when the last of its tiles is there. Those of which one waits for another stay apart;
/// nothing is done if the tiles would no longer fit.
PassResult transfers(Unit& unit);

}  // namespace nkisim::compiler
