// Chooses the engine that triggers a DMA where the kernel names none (compiler pass `queues`).
#pragma once

#include <cstddef>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// Gives DMAs whose engine is open the one that `queues` says, where they can run there. Returns
/// how many changed. k_one: as recorded, SyncE, or GpSimd where descriptors are made by software;
/// k_split: loads SyncE, stores to HBM ScalarE; k_software: as k_split, but inputs and outputs of
/// the program go through GpSimd's software descriptors (generations that have hardware ones).
std::size_t assign_queues(isa::Program& program, DmaQueues queues);

/// Gives DMAs with open engine, open `dge_mode` and addresses that are known static descriptors,
/// from so many queues, round robin. Returns how many.
std::size_t use_static_queues(isa::Program& program, int queues);

/// The same, as the switches `dma_queues` and `descriptors` say.
PassResult assign(Unit& unit);

}  // namespace nkisim::compiler
