// Tests the spilling of tiles from SBUF to HBM and back, on programs worked out by hand.
#include "compiler/passes/spill.hpp"

#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;

namespace {

constexpr std::int64_t kTile = 64;          // bytes of every partition
constexpr std::int64_t kAll = kTile * 128;  // of all

struct Sample {
  PB b;
  std::uint32_t x, out;
  int tiles = 0, stores = 0;
  Sample() {
    x = b.hbm("x", Dtype::kFloat32, {128, 16});
    out = b.hbm("out", Dtype::kFloat32, {128 * 8, 16});
    b.set(x, std::vector<float>(128 * 16, 9));
  }
  std::uint32_t tile() { return b.sbuf("t" + std::to_string(tiles++), Dtype::kFloat32, {128, 16}); }
  void fill(const isa::TensorRef* at, double value) {
    b.op("memset", {{"dst", PB::arg(at)}, {"value", PB::arg(value)}}, Engine::kVector);
  }
  std::uint32_t made(double value) {
    const std::uint32_t t = tile();
    fill(b.all(t), value);
    return t;
  }
  std::uint32_t loaded() {
    const std::uint32_t t = tile();
    b.op("dma_copy", {{"dst", PB::arg(b.all(t))}, {"src", PB::arg(b.all(x))}});
    return t;
  }
  void store(std::uint32_t t) {
    b.op("dma_copy", {{"dst", PB::arg(b.view(out, {{16, 128}, {1, 16}}, stores++ * 128 * 16))},
                      {"src", PB::arg(b.all(t))}});
  }
  std::optional<compiler::Spilled> spilled(std::int64_t tiles_that_fit) {
    const std::vector<bool> placed(b.program().tensors().size(), false);
    return compiler::spill_tiles(b.program(), placed, isa::Uses(b.program()),
                                 tiles_that_fit * kTile);
  }
  // The last element of every block stored.
  std::vector<float> values() {
    b.program().set_virtual_addresses(true);
    b.run();
    const auto all = b.get(out);
    std::vector<float> ends;
    for (int i = 1; i <= stores; ++i) ends.push_back(all[static_cast<std::size_t>(i) * 2048 - 1]);
    return ends;
  }
};

}  // namespace

TEST_CASE("tiles that fit in SBUF are not spilled", "[spill]") {
  Sample s;
  const auto a = s.made(1), b = s.made(2);
  s.store(a);
  s.store(b);
  const auto spilled = s.spilled(2);
  REQUIRE(spilled);
  CHECK(spilled->transfers == 0);
}

TEST_CASE("the tile that is used latest leaves and comes back", "[spill]") {
  Sample s;
  const auto a = s.made(1), b = s.made(2), c = s.made(3);  // c finds no space: b goes, used last
  s.store(a);
  s.store(c);
  s.store(b);
  const auto spilled = s.spilled(2);
  REQUIRE(spilled);
  CHECK(spilled->saved == kAll);
  CHECK(spilled->reloaded == kAll);
  CHECK(spilled->again == 0);
  CHECK(s.values() == std::vector<float>{1, 3, 2});
}

TEST_CASE("a tile that was stored and has not changed is not stored again", "[spill]") {
  Sample s;
  const auto a = s.made(1), b = s.made(2), c = s.made(3);
  s.store(a);
  s.store(c);
  s.store(b);  // back, and a, which is used before it, out of the way
  const auto d = s.made(4);
  s.store(d);
  const auto e = s.made(5);
  s.store(d);
  s.store(e);
  s.store(b);
  const auto spilled = s.spilled(2);
  REQUIRE(spilled);
  CHECK(spilled->saved == kAll);
  CHECK(spilled->reloaded == 2 * kAll);
  CHECK(s.values() == std::vector<float>{1, 3, 2, 4, 4, 5, 2});
}

TEST_CASE("a changed tile is stored again", "[spill]") {
  Sample s;
  const auto a = s.made(1), b = s.made(2), c = s.made(3);
  s.store(a);
  s.store(c);
  s.fill(s.b.view(b, {{1, 8}}, 8), 7);
  const auto d = s.made(4), e = s.made(5);
  s.store(d);
  s.store(e);
  s.store(b);
  const auto spilled = s.spilled(2);
  REQUIRE(spilled);
  CHECK(spilled->saved == 2 * kAll);
  CHECK(spilled->reloaded == 2 * kAll);
  CHECK(s.values() == std::vector<float>{1, 3, 4, 5, 7});
}

TEST_CASE("a tile loaded from unchanged memory is dropped and loaded again", "[spill]") {
  Sample s;
  const auto a = s.made(1), b = s.loaded(), c = s.made(3);
  s.store(a);
  s.store(c);
  s.store(b);
  const auto spilled = s.spilled(2);
  REQUIRE(spilled);
  CHECK(spilled->saved == 0);
  CHECK(spilled->again == kAll);
  CHECK(s.values() == std::vector<float>{1, 3, 9});
}

TEST_CASE("a tile that changed after its load is stored, not loaded again", "[spill]") {
  Sample s;
  const auto a = s.made(1), b = s.loaded();
  s.fill(s.b.view(b, {{1, 8}}, 8), 7);
  const auto c = s.made(3);  // b leaves
  s.store(a);
  s.store(c);
  s.store(b);
  const auto spilled = s.spilled(2);
  REQUIRE(spilled);
  CHECK(spilled->saved == kAll);
  CHECK(spilled->reloaded == kAll);
  CHECK(spilled->again == 0);
  CHECK(s.values() == std::vector<float>{1, 3, 7});
}

TEST_CASE("a tile may be filled in parts before it leaves, and change again later", "[spill]") {
  for (const bool all : {true, false}) {
    Sample s;
    const auto a = s.made(1), b = s.tile();
    s.fill(s.b.view(b, {{1, 8}}, 8), 7);
    if (all) s.fill(s.b.view(b, {{1, 8}}), 6);
    const auto c = s.made(3);  // finds no space; a is used before b
    s.store(a);
    s.store(c);
    s.fill(s.b.view(b, {{1, 8}}), 5);
    s.store(b);
    const auto spilled = s.spilled(2);
    REQUIRE(spilled);
    // b; or, while part of b has no value, a, and c to let it in again.
    CHECK(spilled->saved == (all ? 1 : 2) * kAll);
    CHECK(spilled->reloaded == spilled->saved);
    CHECK(s.values() == std::vector<float>{1, 3, 7});
  }
}

TEST_CASE("an instruction whose own tiles do not fit cannot be helped", "[spill]") {
  Sample s;
  const auto a = s.made(1), b = s.tile();
  s.b.op("tensor_copy", {{"dst", PB::arg(s.b.all(b))}, {"src", PB::arg(s.b.all(a))}});
  s.store(b);
  CHECK_FALSE(s.spilled(1));
}
