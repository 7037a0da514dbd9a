// Finds results that are overwritten before any instruction reads them, and inputs and loads that
// are never read.
#pragma once

#include "checks/statics.hpp"

namespace nkisim::checks {

/// Warnings for instructions whose results, all of them, are overwritten through the same tensors
/// before anything has read them, by one instruction or by several in parts: a sum that is begun
/// anew (accumulate=False), a tile loaded again before its use, an output stored twice at the same
/// place. In program order, the bodies of loops taken twice. Fills (instructions without operands
/// to read, and copies of what they wrote) may be overwritten; so may what depends on bytes that
/// are unwritten, and what computes the same again from the same values (value_numbers.hpp).
/// Operands with run-time addresses read their whole tensor and overwrite nothing; what only
/// happens in a branch overwrites nothing; HBM that several cores touch is left out. Each pair of
/// lines is named once.
///
/// Results that nothing reads at all are named (result_unread) where no kernel means it, with `all`
/// always, and then also those of which a part is overwritten unread (result_partly_lost). A value
/// that an iteration of a loop leaves for the next one is not named for being unread after the
/// last.
[[nodiscard]] std::vector<Remark> unread_remarks(const isa::Program& program, bool all);

/// Inputs of which nothing reads some elements (input_unread), at the last instruction that reads
/// others of them, or else the program's first. Those that something writes, and those with an
/// operand at a run-time address, are left out.
[[nodiscard]] std::vector<Remark> input_remarks(const isa::Program& program);

/// Loads into tiles of which nothing reads some elements, though others (load_unread), in any
/// order. A tile at an address that the kernel chose is left out, and so is one that nothing reads
/// at all (unread_remarks). Each line is named once.
[[nodiscard]] std::vector<Remark> load_remarks(const isa::Program& program);

/// The findings of those two that no kernel means: the instructions of one line read a tensor in
/// parts of one form and equal distance, and one step more would read exactly what is left; or they
/// read the same part as often as there are parts.
[[nodiscard]] std::vector<Remark> step_remarks(const isa::Program& program);

}  // namespace nkisim::checks
