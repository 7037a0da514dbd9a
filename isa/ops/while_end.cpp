#include "isa/ops/common.hpp"

namespace nkisim::isa {
namespace {}  // namespace

extern const OpSpec spec_while_end;
const OpSpec spec_while_end = {
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

}  // namespace nkisim::isa
