// Checks for undefined values at the ends of a program: its outputs and its registers.
#pragma once

#include "isa/machine/eval.hpp"

namespace nkisim::isa {

/// Looks for undefined elements in the outputs of a program that has ended, and puts NaN, or 4 in
/// integers, in unwritten ones. An Error for each such output goes to `sink`: how many elements,
/// the first of them, where they come from; and one for each line that multiplies undefined
/// elements by zeros.
void check_outputs(const Program& program, Memory& memory, const UndefinedSink& sink);

/// Stores what AWS's simulator fills memory with: NaN, or 4 in integers.
void fill_sentinel(Dtype dtype, std::byte* element);

}  // namespace nkisim::isa
