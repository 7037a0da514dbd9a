// nop: occupies its engine's sequencer and touches nothing.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::nop {

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "nop",
    .doc = "Occupies its engine's sequencer and touches nothing.",
    .semantics = "no effect; its semaphore waits and posts hold as on any instruction",
    .cost = "sequencer time (rule of opcode NOP)",
    .sources = "profiler opcode NOP (device profiles; profile schema)",
    .engines = kAnySequencer,
    .params = {},
    .opcode = Opcode::kNOP,
};

}  // namespace nkisim::isa::ops::nop
