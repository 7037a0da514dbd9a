// Tests the arithmetic of sequencer registers: 32 bits, two's complement; shifts by 32 and more
// leave nothing.
#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dtype;
using PB = test::ProgramBuilder;

namespace {

constexpr int kAdd = 0, kSubtract = 1, kMultiply = 2, kAnd = 3, kOr = 4, kXor = 5, kLeft = 6,
              kRight = 7;

// lhs op rhs, as a register stores it.
std::int32_t computed(int op, int lhs, int rhs) {
  PB b;
  const auto out = b.hbm("out", Dtype::kInt32, {1});
  b.op("register_move", {{"dst", PB::reg(0)}, {"src", PB::arg(lhs)}});
  b.op("register_alu",
       {{"dst", PB::reg(1)}, {"op", PB::choice(op)}, {"lhs", PB::reg(0)}, {"rhs", PB::arg(rhs)}});
  b.op("register_store", {{"dst", PB::arg(b.all(out))}, {"src", PB::reg(1)}});
  b.run();
  return b.get_words<std::int32_t>(out).at(0);
}

}  // namespace

TEST_CASE("registers compute in 32 bits") {
  constexpr int kMost = std::numeric_limits<int>::max(), kLeast = std::numeric_limits<int>::min();
  CHECK(computed(kAdd, 5, -7) == -2);
  CHECK(computed(kAdd, kMost, 1) == kLeast);
  CHECK(computed(kSubtract, 5, 7) == -2);
  CHECK(computed(kSubtract, kLeast, 1) == kMost);
  CHECK(computed(kMultiply, -3, 7) == -21);
  CHECK(computed(kMultiply, 65536, 65536) == 0);
  CHECK(computed(kAnd, 12, 10) == 8);
  CHECK(computed(kOr, 12, 10) == 14);
  CHECK(computed(kXor, 12, 10) == 6);
}

TEST_CASE("registers shift by up to 31, and what is shifted further is gone") {
  CHECK(computed(kLeft, 3, 0) == 3);
  CHECK(computed(kLeft, 3, 4) == 48);
  CHECK(computed(kLeft, 1, 31) == std::numeric_limits<int>::min());
  CHECK(computed(kRight, 48, 4) == 3);
  CHECK(computed(kRight, -1, 31) == 1);  // of the bits, without the sign
  for (const int by : {32, 33, 64, -1}) {
    INFO(by);
    CHECK(computed(kLeft, 3, by) == 0);
    CHECK(computed(kRight, -1, by) == 0);
  }
}
