// When the tensors of a program are used, and between which instructions its loops lie.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program/program.hpp"

namespace nkisim::compiler {

/// Numbers of the first and last instruction that touches a tensor, index tensors included; -1:
/// none.
struct Lifetime {
  std::int64_t first = -1, last = -1;
  bool written = false;  // by some instruction
};
/// By tensor.
[[nodiscard]] std::vector<Lifetime> lifetimes_of(const isa::Program& program);

/// The instructions that open and close a loop.
struct Loop {
  int core = 0;
  std::int64_t begin = 0, end = 0;
};
/// All loops (not branches), in the order in which they end: an inner one before its outer one.
[[nodiscard]] std::vector<Loop> loops_of(const isa::Program& program);

}  // namespace nkisim::compiler
