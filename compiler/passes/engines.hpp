// Compiler pass `engines`: chooses the engine of compute instructions whose kernel names none.
#pragma once

#include <cstddef>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// True if the program allows another engine than VectorE for this copy, and ScalarE would compute
/// the same bits.
[[nodiscard]] bool may_copy_elsewhere(const isa::Inst& inst);

/// "scalar": ScalarE does every open copy out of PSUM, with an activation function. "load" is the
/// list scheduler's, which gives an open copy to VectorE or ScalarE, whichever starts it first.
PassResult engines(Unit& unit);

}  // namespace nkisim::compiler
