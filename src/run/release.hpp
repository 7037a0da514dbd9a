// Checks a program for what the compilers of AWS's SDK releases refuse although the machine could
// run it (docs/gate.md).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim {

/// A release of the Neuron SDK: 2.MINOR.
struct Release {
  int minor = 0;
};
inline constexpr Release kNewestRelease{isa::Program::kNewestSdk};
/// "2.29"; an Error unless it is one of 2.20 to 2.33, those that have NKI.
[[nodiscard]] Release parse_release(std::string_view text);

/// Every instruction of the program that the compiler of this release refuses by its documents, as
/// Errors located in the program: what is newer than it, and what it has removed or forbidden.
[[nodiscard]] std::vector<isa::Error> refusals(const isa::Program& program, Release release);

}  // namespace nkisim
