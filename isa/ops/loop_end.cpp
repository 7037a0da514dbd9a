// loop_end: closes the innermost loop_begin.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::loop_end {
namespace {}  // namespace

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
    .control = OpSpec::Control::kLoopEnd,
};

}  // namespace nkisim::isa::ops::loop_end
