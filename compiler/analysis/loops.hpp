// Finds the loops of a program: the instructions that begin and end each one.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// The instructions that open and close a loop.
struct Loop {
  int core = 0;
  std::int64_t begin = 0, end = 0;
};
/// All loops (not branches), in the order in which they end: an inner one before its outer one.
[[nodiscard]] std::vector<Loop> loops_of(const isa::Program& program);

}  // namespace nkisim::compiler
