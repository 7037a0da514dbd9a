// Compiler pass `casts`: a compute engine casts a tile before its store, instead of the DMA
// engines.
#pragma once

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// A store of a float32 tile to memory of a 16-bit type becomes a tensor_copy into a tile of that
/// type, on an engine that is open, and a store of half the bytes. Where the store's queue is open
/// and nothing of it is known only at run time.
PassResult casts(Unit& unit);

}  // namespace nkisim::compiler
