// else_begin: starts the part of a branch that runs when the comparison fails.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::else_begin {
namespace {}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "else_begin",
    .doc = "Starts the part of a branch that runs when the comparison fails.",
    .semantics = "else",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "nki.language loops; nki-dynamic-loops",
    .engines = kAnySequencer,
    .params = {},
    .opcode = Opcode::kCOMPARE_BRANCH,
    .control = OpSpec::Control::kElseBegin,
};

}  // namespace nkisim::isa::ops::else_begin
