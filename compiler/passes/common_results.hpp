// Compiler pass `reuse`: removes an instruction whose result an earlier one has computed already.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Instructions of VectorE, ScalarE and GpSimd that do the same to the same values as an earlier
/// one, where both results are whole SBUF tensors without a final address (`placed` false) that
/// nothing else writes: what reads the later result is redirected to the earlier, as far as SBUF
/// can keep it for longer. Returns the later instructions, which the caller removes. For
/// programs without control flow; others get none.
std::vector<std::uint32_t> reuse_results(isa::Program& program, const std::vector<bool>& placed,
                                         const isa::Uses& uses);

/// Drops them if the switch `reuse` says so. Programs with explicit semaphores stay as they are.
PassResult reuse(Unit& unit);

}  // namespace nkisim::compiler
