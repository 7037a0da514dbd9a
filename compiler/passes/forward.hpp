// Compiler pass `forward`: instructions read a result in PSUM itself, not a copy of it in SBUF.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compiler/unit.hpp"

namespace nkisim::compiler {

/// `copies`: instructions that copy a whole PSUM tensor to a whole SBUF tensor of the same shape
/// and dtype. Where every reader of the copy can reach PSUM, and PSUM is at most half full then,
/// the readers are redirected. Returns the copies without use; the caller removes them.
std::vector<std::uint32_t> forward_copies(isa::Program& program, const isa::Uses& uses,
                                          std::span<const std::uint32_t> copies);

/// Forwards the copies that the program marks (Inst::forward) and drops those that nothing needs
/// any more. Only in open programs without control flow.
PassResult forward(Unit& unit);

}  // namespace nkisim::compiler
