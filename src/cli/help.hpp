// Prints the texts of `nkisim --help` and of `nkisim COMMAND --help`, --help-all and
// --help-compiler.
#pragma once

#include <iosfwd>

#include "src/cli/command.hpp"

namespace nkisim::cli {

/// All commands, in groups.
void print_overview(std::ostream& out);
/// A command's help on standard output, if one of its options asked for it: whether it did.
bool printed_help(const Command& c, const Args& args);

}  // namespace nkisim::cli
