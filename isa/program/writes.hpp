// Decides how an instruction treats the old contents of its outputs: it adds to them, leaves parts
// of them, or replaces them; and which register it sets.
#pragma once

#include "isa/program/op_spec.hpp"

namespace nkisim::isa {

class Program;

/// True if an instruction adds to the contents of its destination: a product that accumulates.
[[nodiscard]] bool adds(const Inst& inst);

/// True if the results of an instruction depend on the old contents of this output.
[[nodiscard]] inline bool reads_before(const Inst& inst, const Param& output) {
  return output.kind == ParamKind::kInOut || adds(inst);
}

/// True if an instruction may leave bytes of this output unchanged on any rank: rows that a DMA
/// skips, elements that a predicate does not name, blocks of a collective of variable lengths.
[[nodiscard]] bool leaves_parts(const Program& program, const Inst& inst, const Param& output);

/// True if each output counts for itself, as an MX tile and its scales do. A kernel may want only
/// one output of other instructions, such as a row's sum.
[[nodiscard]] bool outputs_count_apart(const OpSpec& op);

/// The register that an instruction sets, or -1.
[[nodiscard]] std::int64_t written_register(const Inst& inst);

}  // namespace nkisim::isa
