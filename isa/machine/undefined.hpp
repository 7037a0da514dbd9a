// Checks at the end of a program that no output and no register holds an undefined (never-written)
// value.
#pragma once

#include "isa/machine/eval.hpp"

namespace nkisim::isa {

/// Looks for undefined elements in the outputs of a program that has ended, and puts NaN, or 4 in
/// integers, in unwritten ones. Each such output breaks a rule: how many elements, the first of
/// them, where they come from; and so does each line that multiplies undefined elements by zeros,
/// or that casts small numbers with fractions to integers.
/// The rules of `conditions` say which is thrown; its sink gets the warnings before.
void check_outputs(const Program& program, Memory& memory, const Conditions& conditions);

/// Stores what AWS's simulator fills memory with: NaN, or 4 in integers.
void fill_sentinel(Dtype dtype, std::byte* element);

}  // namespace nkisim::isa
