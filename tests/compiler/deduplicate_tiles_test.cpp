// Tests the pass that fills one tile where several tiles would hold the same values.
#include "compiler/passes/deduplicate_tiles.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <tuple>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::AluOp;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;

namespace {

// Two blocks of 32 x 16 in memory, 2 and 3 everywhere, that tiles are loaded from; `out` has four.
struct Sample {
  PB b;
  std::uint32_t x, out;
  int tiles = 0, stores = 0;
  std::vector<bool> placed;
  std::int64_t budget = 1024;  // of every partition
  bool all_of_loop = true;
  Sample() {
    x = b.hbm("x", Dtype::kFloat32, {64, 16});
    out = b.hbm("out", Dtype::kFloat32, {128, 16});
    const std::uint32_t seed = tile();
    for (int block = 0; block < 2; ++block) {
      fill(b.all(seed), 2 + block);
      b.op("dma_copy", {{"dst", PB::arg(rows(x, block))}, {"src", PB::arg(b.all(seed))}});
    }
  }
  std::uint32_t tile(std::int64_t columns = 16) {
    return b.sbuf("t" + std::to_string(tiles++), Dtype::kFloat32, {32, columns});
  }
  const isa::TensorRef* rows(std::uint32_t tensor, int block) {
    return b.view(tensor, {{16, 32}, {1, 16}}, std::int64_t{block} * 32 * 16);
  }
  // Half the columns of a tile or block.
  const isa::TensorRef* half(std::uint32_t t, int which) { return b.view(t, {{1, 8}}, which * 8); }
  const isa::TensorRef* half_rows(int block, int which) {
    return b.view(x, {{16, 32}, {1, 8}}, std::int64_t{block} * 32 * 16 + which * 8);
  }
  void fill(const isa::TensorRef* at, double value) {
    b.op("memset", {{"dst", PB::arg(at)}, {"value", PB::arg(value)}}, Engine::kVector);
  }
  void move(const isa::TensorRef* dst, const isa::TensorRef* src) {
    b.op("dma_copy", {{"dst", PB::arg(dst)}, {"src", PB::arg(src)}});
  }
  std::uint32_t load(int block) {
    const std::uint32_t t = tile();
    move(b.all(t), rows(x, block));
    return t;
  }
  std::uint32_t load_halves(int first) {
    const std::uint32_t t = tile();
    for (const int which : {first, 1 - first}) move(half(t, which), half_rows(which, which));
    return t;
  }
  std::uint32_t plus(std::uint32_t t, double value) {
    const std::uint32_t sum = tile();
    b.op("tensor_scalar",
         {{"dst", PB::arg(b.all(sum))},
          {"data", PB::arg(b.all(t))},
          {"op0", PB::arg(AluOp::kAdd)},
          {"operand0", PB::arg(value)}},
         Engine::kVector);
    return sum;
  }
  // Block 0 or 1 or the halves of both, and the iteration's number; the second's are stored.
  void load_and_add(int which, int iteration) {
    const std::uint32_t sum = plus(which < 2 ? load(which) : load_halves(0), 1 + iteration);
    if (iteration == 1) store(sum);
  }
  void store(std::uint32_t t) { move(rows(out, stores++), b.all(t)); }
  // The number of dropped instructions; and the first and last value of every block stored.
  std::pair<std::size_t, std::vector<float>> shared() {
    placed.resize(b.program().tensors().size(), false);
    const auto dropped =
        compiler::share_tiles(b.program(), placed, isa::Uses(b.program()),
                              compiler::Values::of(b.program(), placed), budget, all_of_loop);
    b.program().remove(dropped);
    b.run();
    const auto all = b.get(out);
    std::vector<float> ends;
    for (int i = 0; i < stores; ++i) {
      const auto at = static_cast<std::size_t>(i) * 32 * 16;
      ends.insert(ends.end(), {all[at], all[at + 15]});
    }
    return {dropped.size(), ends};
  }
};

using Result = std::pair<std::size_t, std::vector<float>>;

}  // namespace

TEST_CASE("a block that is loaded again is loaded once", "[share]") {
  Sample s;
  for (const int block : {0, 1, 0, 0}) s.store(s.load(block));
  CHECK(s.shared() == Result{2, {2, 2, 3, 3, 2, 2, 2, 2}});
}

TEST_CASE("loads with a write between them are not equal", "[share]") {
  Sample s;
  const std::uint32_t first = s.load(0);
  s.store(first);
  s.move(s.rows(s.x, 0), s.b.all(s.load(1)));
  s.store(s.load(0));
  CHECK(s.shared() == Result{0, {2, 2, 3, 3}});
}

TEST_CASE("a tile that changes after its load is not shared", "[share]") {
  Sample later, earlier;
  later.store(later.load(0));
  const std::uint32_t changed = later.load(0);
  later.store(later.plus(changed, 1));
  later.fill(later.half(changed, 1), 7);
  later.store(changed);
  CHECK(later.shared() == Result{0, {2, 2, 3, 3, 2, 7}});
  const std::uint32_t before = earlier.load(0);
  earlier.fill(earlier.half(before, 1), 7);
  earlier.store(before);
  earlier.store(earlier.load(0));
  CHECK(earlier.shared() == Result{0, {2, 7, 2, 2}});
}

TEST_CASE("a tile may be filled in parts, in one order", "[share]") {
  Sample same, other;
  for (int i = 0; i < 2; ++i) same.store(same.load_halves(0));
  CHECK(same.shared() == Result{2, {2, 3, 2, 3}});
  for (int i = 0; i < 2; ++i) other.store(other.load_halves(i));
  CHECK(other.shared() == Result{0, {2, 3, 2, 3}});
}

TEST_CASE("what is computed from equal loads alone is computed once", "[share]") {
  Sample s;
  s.store(s.plus(s.load(0), 1));
  s.store(s.plus(s.load(0), 1));  // the load and the sum
  s.store(s.plus(s.load(0), 2));  // the load
  CHECK(s.shared() == Result{3, {3, 3, 3, 3, 4, 4}});
}

TEST_CASE("operands that something else reads stay", "[share]") {
  Sample s;
  s.store(s.plus(s.load(0), 1));
  const std::uint32_t again = s.load(0);
  s.store(s.plus(again, 1));
  s.fill(s.half(again, 0), 5);  // so it is no copy of the first
  s.store(again);
  CHECK(s.shared() == Result{1, {3, 3, 3, 3, 5, 2}});
}

TEST_CASE("a write to any tensor whose address is given may change another's bytes", "[share]") {
  for (const bool written : {false, true}) {
    Sample s;
    const std::uint32_t a = s.load(0), other = s.tile();
    s.placed.assign(s.b.program().tensors().size(), false);
    s.placed[a] = s.placed[other] = true;
    s.store(s.plus(a, 1));
    if (written) s.fill(s.b.all(other), 5);
    s.store(s.plus(a, 1));
    CHECK(s.shared() == Result{written ? 0U : 1U, {3, 3, 3, 3}});
  }
}

// An iteration loads three tiles, A, B and C (C by two DMAs), of 64 bytes, each with a sum. Two
// that wait for the next one and these are 256 bytes; with 192 one can wait at a time: A for the
// second iteration, then C for it, then C for the third.
TEST_CASE("a loop keeps as many of its tiles as there is budget for, or none", "[share]") {
  for (const bool all : {false, true}) {
    for (const std::int64_t budget : {256, 192}) {
      Sample s;
      s.budget = budget;
      s.all_of_loop = all;
      for (int iteration = 0; iteration < 3; ++iteration) {
        for (const int tile : {0, 1, 2}) s.load_and_add(tile, iteration);
      }
      const std::size_t dropped = budget == 256 ? 8 : all ? 0 : 5;
      CHECK(s.shared() == Result{dropped, {4, 4, 5, 5, 4, 5}});
    }
  }
}

TEST_CASE("sharing stops where there is no space", "[share]") {
  for (const std::int64_t budget : {192, 191}) {  // the block that is read again and two others
    Sample s;
    s.budget = budget;
    s.store(s.load(0));
    const std::uint32_t other = s.load(1);
    s.store(s.plus(other, 1));
    s.store(s.load(0));
    CHECK(s.shared() == Result{budget == 192 ? 1U : 0U, {2, 2, 4, 4, 2, 2}});
  }
}
