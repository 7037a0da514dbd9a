// What an instruction does to what its outputs held before: adds to it, leaves parts of it, or
// replaces it.
#pragma once

#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

class Program;

/// Whether an instruction adds to what its destination holds: a product that
/// accumulates.
[[nodiscard]] bool adds(const Inst& inst);

/// Whether what an instruction computes depends on what this output held.
[[nodiscard]] inline bool reads_before(const Inst& inst, const Param& output) {
  return output.kind == ParamKind::kInOut || adds(inst);
}

/// Whether an instruction may leave bytes of this output as they were, on any rank: rows that a DMA
/// skips, elements that a predicate does not name, blocks of a collective of variable lengths.
[[nodiscard]] bool leaves_parts(const Program& program, const Inst& inst, const Param& output);

/// Whether each output counts for itself, as an MX tile and its scales do. Of other instructions
/// one output may be all that a kernel wants, such as a row's sum.
[[nodiscard]] bool outputs_count_apart(const OpSpec& op);

}  // namespace nkisim::isa
