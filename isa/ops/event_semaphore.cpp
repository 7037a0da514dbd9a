// event_semaphore: waits for and updates semaphores without touching data.
#include "isa/ops/shared/common.hpp"

namespace nkisim::isa::ops::event_semaphore {
namespace {}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "event_semaphore",
    .doc = "Waits for and updates semaphores without touching data.",
    .semantics = "wait for its conditions, then apply its updates",
    .cost = "sequencer time per execution (config: sequencer)",
    .sources = "profiler opcode EVENT_SEMAPHORE",
    .engines = kAnySequencer,
    .params = {},
    .opcode = Opcode::kEVENT_SEMAPHORE,
};

}  // namespace nkisim::isa::ops::event_semaphore
