// Instructions read a tile where the tensor engine left it, in PSUM, instead of a copy in SBUF.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isa/program.hpp"

namespace nkisim::compiler {

/// `copies`: instructions that copy a whole PSUM tensor to a whole SBUF tensor of the same shape
/// and dtype. Where every reader of the copy can reach PSUM, and PSUM is at most half full then,
/// the readers are redirected. Returns the copies nobody needs any more; the caller removes them.
std::vector<std::uint32_t> forward_copies(isa::Program& program,
                                          std::span<const std::uint32_t> copies);

/// Clears of PSUM tensors (`placed` false) whose every byte the tensor engine overwrites before any
/// other access, within one stretch without control flow.
std::vector<std::uint32_t> dead_clears(const isa::Program& program,
                                       const std::vector<bool>& placed);

}  // namespace nkisim::compiler
