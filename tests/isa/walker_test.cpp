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
  isa::Walker walker(b.program(), 0, state, false);
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

// The message about row `row` of four: of the walk, or else of the instruction when it runs.
std::string said(std::int64_t limit, int row, bool walked) {
  PB b;
  const auto x = b.hbm("x", isa::Dtype::kFloat32, {4, 8});
  const auto t = b.sbuf("t", isa::Dtype::kFloat32, {1, 8});
  b.op("register_alloc", {{"dst", PB::reg(3)}, {"x", PB::arg(row)}});
  const auto* offset = b.program().add_dynamic({.reg = 3, .stride = 8, .limit = limit});
  const auto* src = b.view(x, {{8, 1}, {1, 8}}, 0, -1, -1, offset);
  b.op("dma_copy", {{"dst", PB::arg(b.all(t))}, {"src", PB::arg(src)}});
  isa::CoreState state;
  isa::Memory memory(b.program());
  isa::EvalContext context(b.program(), memory, state, isa::Unwritten::kAllow);
  isa::Walker walker(b.program(), 0, state, walked);
  std::string text;
  try {
    while (const auto step = walker.next()) {
      if (!walked || isa::spec(*step->inst).on_sequencer) context.run(*step->inst);
    }
  } catch (const isa::Error& e) {
    text = e.message();
  }
  return text;
}

}  // namespace

TEST_CASE("an operand that a register moves is kept in its tensor, by the walk or by its run") {
  for (const bool walked : {true, false}) {
    CHECK(said(0, 3, walked).empty());
    CHECK(said(4, 3, walked).empty());
    CHECK_THAT(said(3, 3, walked), Catch::Contains("dynamic offset of tensor x is 3; an index in "
                                                   "0..2 is required"));
    CHECK_THAT(said(0, -1, walked), Catch::Contains("at bytes -32..0; an address within its 128"));
    CHECK_THAT(said(0, 4, walked), Catch::Contains("at bytes 128..160; an address within its 128"));
  }
}

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
