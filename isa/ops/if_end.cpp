// if_end: closes the innermost if_begin.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::if_end {
namespace {}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "if_end",
    .doc = "Closes the innermost if_begin.",
    .semantics = "join",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.language loops; nki-dynamic-loops",
    .engines = kAnySequencer,
    .params = {},
    .opcode = Opcode::kCOMPARE_BRANCH,
    .control = OpSpec::Control::kIfEnd,
};

}  // namespace nkisim::isa::ops::if_end
