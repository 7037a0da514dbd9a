// Finds instructions whose output overlaps an input that they still have to read.
#pragma once

#include "checks/statics.hpp"

namespace nkisim::checks {

/// Warnings for instructions of the compute engines whose destination shares bytes with an operand
/// of as many columns, but not element by element (a shifted copy in place), or with itself (a step
/// of 0): an engine reads and writes as a stream, so what arrives depends on how far apart the two
/// are. Partitions work side by side, so a shift along them is none. A DMA's overlaps are found by
/// value (isa/eval). Operands with run-time addresses are left out. Each line is named once.
[[nodiscard]] std::vector<Remark> inplace_remarks(const isa::Program& program);

}  // namespace nkisim::checks
