// Compiler pass `rename`: a tile gets new storage each time it is loaded anew, so that the load
// need not wait for readers of its previous value.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// For every SBUF tensor without a final address (`placed` false) that a DMA overwrites as a whole:
/// the accesses from there on use a new tensor. Only tensors used within one stretch without
/// control flow; `whole`: and of which every instruction uses all. Returns (new tensor, tensor it
/// was) pairs; the program computes the same.
std::vector<std::pair<std::uint32_t, std::uint32_t>> rename_tiles(isa::Program& program,
                                                                  const std::vector<bool>& placed,
                                                                  const isa::Uses& uses,
                                                                  bool whole = false);

/// Does so if the switch `rename` says so and the scheduler is to use the freedom.
PassResult rename(Unit& unit);

}  // namespace nkisim::compiler
