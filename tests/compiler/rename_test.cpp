// Tests the pass that gives a tile storage of its own each time it is loaded with new data.
#include "compiler/passes/rename.hpp"

#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;

namespace {

// total += tile, for a tile loaded from `a`, and then from `b`, `columns` of it.
struct Sample {
  PB b;
  std::uint32_t x, y, tile, total, out;
  Sample() {
    x = b.hbm("x", Dtype::kFloat32, {32, 16});
    y = b.hbm("y", Dtype::kFloat32, {32, 16});
    tile = b.sbuf("tile", Dtype::kFloat32, {32, 16});
    total = b.sbuf("total", Dtype::kFloat32, {32, 16});
    out = b.hbm("out", Dtype::kFloat32, {32, 16});
    b.op("memset", {{"dst", PB::arg(b.all(total))}, {"value", PB::arg(0.0)}}, Engine::kVector);
  }
  void load(std::uint32_t from, std::int64_t columns = 16) {
    b.op("dma_copy", {{"dst", PB::arg(b.view(tile, {{1, columns}}))},
                      {"src", PB::arg(b.view(from, {{16, 32}, {1, columns}}))}});
  }
  void add(std::int64_t columns = 16) {
    b.op("tensor_tensor",
         {{"dst", PB::arg(b.view(total, {{1, columns}}))},
          {"data1", PB::arg(b.view(total, {{1, columns}}))},
          {"data2", PB::arg(b.view(tile, {{1, columns}}))},
          {"op", PB::arg(isa::AluOp::kAdd)}},
         Engine::kVector);
  }
  // The number of tiles made; and the first and the last of the totals.
  std::tuple<std::size_t, float, float> renamed(bool whole = false) {
    b.op("dma_copy", {{"dst", PB::arg(b.all(out))}, {"src", PB::arg(b.all(total))}});
    const auto made =
        compiler::rename_tiles(b.program(), std::vector<bool>(b.program().tensors().size(), false),
                               isa::Uses(b.program()), whole);
    std::int64_t next = 65536;
    for (const auto& [id, from] : made) b.program().set_address(id, next += 1024);
    b.set(x, std::vector<float>(32 * 16, 1.0F));
    b.set(y, std::vector<float>(32 * 16, 10.0F));
    b.run();
    const auto values = b.get(out);
    return {made.size(), values.front(), values.back()};
  }
};

}  // namespace

TEST_CASE("a tile that is loaded anew as a whole gets new storage", "[rename]") {
  Sample s;
  s.load(s.x);
  s.add();
  s.load(s.y);
  s.add();
  CHECK(s.renamed() == std::tuple(std::size_t{1}, 11.0F, 11.0F));
}

TEST_CASE("choice `whole` does not rename a tile that is read in parts", "[rename]") {
  for (const std::int64_t columns : {16, 8}) {
    Sample s;
    s.load(s.x);
    s.add(columns);
    s.load(s.y);
    s.add();
    CHECK(s.renamed(true) ==
          std::tuple(std::size_t{columns == 16 ? 1U : 0U}, 11.0F, columns == 16 ? 11.0F : 10.0F));
  }
}

TEST_CASE("a tile of which a part is loaded anew keeps its storage", "[rename]") {
  Sample s;
  s.load(s.x);
  s.add();
  s.load(s.y, 8);
  s.add();
  CHECK(s.renamed() == std::tuple(std::size_t{0}, 11.0F, 2.0F));
}

TEST_CASE("a tile that carries a value around a loop keeps its storage", "[rename]") {
  Sample s;
  s.load(s.x);
  s.b.op("loop_begin", {{"register", PB::reg(0)}, {"start", PB::arg(0)}, {"stop", PB::arg(3)}});
  s.add();  // of x first, then of what the iteration before has loaded
  s.load(s.y);
  s.b.op("loop_end", {});
  CHECK(s.renamed() == std::tuple(std::size_t{0}, 21.0F, 21.0F));
}
