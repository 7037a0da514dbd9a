// loop_end: closes the innermost loop_begin.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::loop_end {
namespace {

void expand_branch(const Inst& inst, const Machine& machine, Expansion& out) {
  out.parts.push_back(default_part(inst, machine));
  out.parts.back().features |= kFeatLoop;
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "loop_end",
    .doc = "Closes the innermost loop_begin.",
    .semantics = "next iteration or fall through",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.language loops; nki-dynamic-loops",
    .engines = kAnySequencer,
    .params = {},
    .opcode = Opcode::kCOMPARE_BRANCH,
    .expand = expand_branch,
    .control = OpSpec::Control::kLoopEnd,
};

}  // namespace nkisim::isa::ops::loop_end
