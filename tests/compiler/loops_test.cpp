// Tests the analysis that finds the loops of a program: their first and last instructions.
#include "compiler/analysis/loops.hpp"

#include <catch2/catch.hpp>
#include <tuple>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using PB = test::ProgramBuilder;

namespace {

using Found = std::vector<std::tuple<int, std::int64_t, std::int64_t>>;

struct Sample {
  PB b;
  std::uint32_t s = b.sbuf("s", isa::Dtype::kFloat32, {128, 8});
  void fill() { b.op("memset", {{"dst", PB::arg(b.all(s))}, {"value", PB::arg(1.0)}}); }
  void begin(int reg) {
    b.op("loop_begin", {{"register", PB::reg(reg)}, {"start", PB::arg(0)}, {"stop", PB::arg(2)}});
  }
  [[nodiscard]] Found found() {
    Found out;
    for (const auto& loop : compiler::loops_of(b.program())) {
      out.emplace_back(loop.core, loop.begin, loop.end);
    }
    return out;
  }
};

}  // namespace

TEST_CASE("a program without loops has none", "[loops]") {
  Sample s;
  s.fill();
  CHECK(s.found().empty());
}

TEST_CASE("an inner loop comes before its outer one, and one loop after another", "[loops]") {
  Sample s;
  s.begin(0);
  s.fill();
  s.begin(1);
  s.fill();
  s.b.op("loop_end", {});
  s.b.op("loop_end", {});
  s.fill();
  s.begin(0);
  s.b.op("loop_end", {});
  CHECK(s.found() == Found{{0, 2, 4}, {0, 0, 5}, {0, 7, 8}});
}

TEST_CASE("loops that run while a register holds are loops, and branches are none", "[loops]") {
  Sample s;
  s.begin(0);
  s.b.op("while_begin", {{"register", PB::reg(1)}});
  s.b.op("if_begin", {{"lhs", PB::reg(1)}, {"compare", PB::choice(0)}, {"rhs", PB::arg(3)}});
  s.fill();
  s.b.op("if_end", {});
  s.b.op("while_end", {});
  s.b.op("loop_end", {});
  CHECK(s.found() == Found{{0, 1, 5}, {0, 0, 6}});
}
