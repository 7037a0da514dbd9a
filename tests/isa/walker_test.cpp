// Tests the class Walker, which follows a program's loops and branches by its register values.
#include "isa/program/walker.hpp"

#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using PB = test::ProgramBuilder;

namespace {

// The number of times that the instruction inside is executed.
int executed(PB& b) {
  isa::CoreState state;
  isa::Walker walker(b.program(), 0, state);
  int count = 0;
  while (const auto step = walker.next()) {
    const isa::OpSpec& op = isa::spec(*step->inst);
    if (op.on_sequencer) {
      isa::Memory memory(b.program());
      isa::EvalContext(b.program(), memory, state).run(*step->inst);
    }
    count += op.name == "nop" ? 1 : 0;
  }
  return count;
}

int branch(int compare, int lhs, int rhs) {
  PB b;
  b.op("register_alloc", {{"dst", PB::reg(1)}, {"x", PB::arg(rhs)}});
  b.op("if_begin", {{"lhs", PB::arg(lhs)}, {"compare", PB::choice(compare)}, {"rhs", PB::reg(1)}});
  b.op("nop", {});
  b.op("else_begin", {});
  b.op("nop", {});
  b.op("nop", {});
  b.op("if_end", {});
  return executed(b);
}

int loop(int start, int stop, int step) {
  PB b;
  b.op("loop_begin", {{"register", PB::reg(0)},
                      {"start", PB::arg(start)},
                      {"stop", PB::arg(stop)},
                      {"step", PB::arg(step)}});
  b.op("nop", {});
  b.op("loop_end", {});
  return executed(b);
}

}  // namespace

TEST_CASE("every comparison takes its branch, below, at and above") {
  // lt, le, eq, ne, ge, gt: whether 4, 5 and 6 compare so with 5.
  const bool holds[6][3] = {{true, false, false}, {true, true, false}, {false, true, false},
                            {true, false, true},  {false, true, true}, {false, false, true}};
  for (int compare = 0; compare < 6; ++compare) {
    for (int k = 0; k < 3; ++k) {
      INFO("comparison " << compare << " of " << 4 + k << " with 5");
      CHECK(branch(compare, 4 + k, 5) == (holds[compare][k] ? 1 : 2));
    }
  }
}

TEST_CASE("a loop runs while its register is below the end") {
  CHECK(loop(0, 3, 1) == 3);
  CHECK(loop(0, 4, 3) == 2);  // 0 and 3
  CHECK(loop(0, 6, 3) == 2);  // 0 and 3, not 6
  CHECK(loop(2, 3, 1) == 1);
  CHECK(loop(3, 3, 1) == 0);
  CHECK(loop(5, 3, 1) == 0);
}
