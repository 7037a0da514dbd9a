// while_end: closes the innermost while_begin.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::while_end {
namespace {}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "while_end",
    .doc = "Closes the innermost while_begin.",
    .semantics = "back to the condition",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.language loops; nki-dynamic-loops",
    .engines = kAnySequencer,
    .params = {},
    .opcode = Opcode::kCOMPARE_BRANCH,
    .control = OpSpec::Control::kWhileEnd,
};

}  // namespace nkisim::isa::ops::while_end
