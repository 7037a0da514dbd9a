// Checks instruction orders that a kernel asks for itself (with_schedule, depends_on), beyond those
// that operands require.
#pragma once

#include "isa/program/program.hpp"

namespace nkisim::isa {

/// Throws Error, located at the instruction, unless ids are unique on their core, every `after`
/// names an instruction of the core that is in the same loop or branch as its follower or in one
/// around it, only instructions of engines are ordered, and there are no explicit semaphores.
/// `earlier`: what is named must also come earlier in the program.
void check_ordering(const Program& program, bool earlier);

/// Throws Error unless `inst` is an instruction that an order can be asked for: one of an engine or
/// a queue, not of the sequencers, which run the program in its order.
void check_orderable(const Inst& inst);

/// "plus1 (k.py:9)", or the instruction's kind where the kernel gave no name.
[[nodiscard]] std::string called(const Inst& inst, const Program& program);

}  // namespace nkisim::isa
