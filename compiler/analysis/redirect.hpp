// Makes instructions read another tensor than the one they were written for.
#pragma once

#include "isa/program/uses.hpp"

namespace nkisim::compiler {

/// Lets all readers of `from` read `to`, of the same shape and dtype, and keeps `uses` true. False,
/// and nothing changed, if one of them cannot: a DMA from another memory, a use in a list or as an
/// index, or a check that fails.
bool redirect(isa::Program& program, isa::Uses& uses, std::uint32_t from, std::uint32_t to);

}  // namespace nkisim::compiler
