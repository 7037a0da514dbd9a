// Visits a program's instructions in text order, loop bodies twice, for checks that do not run it.
//
// So a check sees what the end of one iteration does to the beginning of the next, without running
// the loop.
#pragma once

#include <vector>

#include "isa/program/op_spec.hpp"

namespace nkisim::checks {

/// Callbacks that do nothing: for_each_twice() calls them where an outermost loop begins (enter),
/// before its second iteration (again) and at its end (leave).
struct NoIterationCallbacks {
  void enter(const isa::Inst&) {}
  void again() {}
  void leave() {}
};

/// Calls fn(instruction) for all of a program in order, for the body of an outermost loop once
/// more, with the loops within it as they stand.
template <typename Fn, typename IterationCallbacks = NoIterationCallbacks>
void for_each_twice(const isa::Program& program, const Fn& fn,
                    IterationCallbacks&& iterations = {}) {
  using Control = isa::OpSpec::Control;
  const auto& insts = program.insts();
  std::size_t begin = 0;
  int open = 0;
  for (std::size_t i = 0; i < insts.size(); ++i) {
    const Control control = isa::spec(insts[i]).control;
    if (control == Control::kLoopBegin || control == Control::kWhileBegin) {
      if (open++ == 0) {
        begin = i;
        iterations.enter(insts[i]);
      }
    }
    const bool ends = control == Control::kLoopEnd || control == Control::kWhileEnd;
    fn(insts[i]);
    if (!ends || --open > 0) continue;
    iterations.again();
    for (std::size_t k = begin + 1; k < i; ++k) fn(insts[k]);
    iterations.leave();
  }
}

}  // namespace nkisim::checks
