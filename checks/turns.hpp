// A program as its text goes, with the bodies of loops taken twice.
#pragma once

#include <vector>

#include "isa/program/op_spec.hpp"

namespace nkisim::checks {

/// What for_each_twice() tells besides instructions: where outermost loops begin, turn and end.
struct NoTurns {
  void enter(const isa::Inst&) {}
  void again() {}
  void leave() {}
};

/// Calls fn(instruction) for all of a program in order, for the body of an outermost loop once
/// more, with the loops within it as they stand.
template <typename Fn, typename Turns = NoTurns>
void for_each_twice(const isa::Program& program, const Fn& fn, Turns&& turns = {}) {
  using Control = isa::OpSpec::Control;
  const auto& insts = program.insts();
  std::size_t begin = 0;
  int open = 0;
  for (std::size_t i = 0; i < insts.size(); ++i) {
    const Control control = isa::spec(insts[i]).control;
    if (control == Control::kLoopBegin || control == Control::kWhileBegin) {
      if (open++ == 0) {
        begin = i;
        turns.enter(insts[i]);
      }
    }
    const bool ends = control == Control::kLoopEnd || control == Control::kWhileEnd;
    fn(insts[i]);
    if (!ends || --open > 0) continue;
    turns.again();
    for (std::size_t k = begin + 1; k < i; ++k) fn(insts[k]);
    turns.leave();
  }
}

}  // namespace nkisim::checks
