// Tests the compiler pass that drops a copy from PSUM to SBUF and lets its readers read PSUM.
#include "compiler/passes/forward.hpp"

#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using compiler::forward_copies;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;

namespace {

using Numbers = std::vector<std::uint32_t>;

// p (PSUM) is filled, copied to s (instruction 1), and s + t is stored; `between` comes after the
// copy, `after` at the end.
struct Sample {
  PB b;
  std::uint32_t p, s, t, sum, out;
  explicit Sample(const std::function<void(Sample&)>& between = {},
                  const std::function<void(Sample&)>& after = {}) {
    const auto tile = [&](const char* name) { return b.sbuf(name, Dtype::kFloat32, {64, 16}); };
    p = b.psum("p", Dtype::kFloat32, {64, 16});
    s = tile("s"), t = tile("t"), sum = tile("sum");
    out = b.hbm("out", Dtype::kFloat32, {64, 16});
    fill(p, 3);
    copy(s, p);
    fill(t, 4);
    if (between) between(*this);
    b.op("tensor_tensor",
         {{"dst", PB::arg(b.all(sum))},
          {"data1", PB::arg(b.all(s))},
          {"data2", PB::arg(b.all(t))},
          {"op", PB::arg(isa::AluOp::kAdd)}},
         Engine::kVector);
    if (after) after(*this);
    b.op("dma_copy", {{"dst", PB::arg(b.all(out))}, {"src", PB::arg(b.all(sum))}});
  }
  void fill(std::uint32_t tensor, double value) {
    b.op("memset", {{"dst", PB::arg(b.all(tensor))}, {"value", PB::arg(value)}}, Engine::kVector);
  }
  void copy(std::uint32_t to, std::uint32_t from) {
    b.op("tensor_copy", {{"dst", PB::arg(b.all(to))}, {"src", PB::arg(b.all(from))}},
         Engine::kVector);
  }
  // The copies dropped; and what the program then stores, everywhere the same.
  std::pair<Numbers, float> forwarded() {
    const Numbers copies = {1};
    const Numbers dropped = forward_copies(b.program(), isa::Uses(b.program()), copies);
    b.program().remove(dropped);
    b.run();
    const auto values = b.get(out);
    REQUIRE(values == std::vector<float>(values.size(), values.front()));
    return {dropped, values.front()};
  }
};

}  // namespace

TEST_CASE("a copy whose readers reach PSUM is dropped", "[forward]") {
  CHECK(Sample().forwarded() == std::pair(Numbers{1}, 7.0F));
}

TEST_CASE("a copy stays where its source is written again while it is needed", "[forward]") {
  Sample s([](Sample& x) { x.fill(x.p, 100); });
  CHECK(s.forwarded() == std::pair(Numbers{}, 7.0F));
}

TEST_CASE("a copy stays where its source is used later", "[forward]") {
  Sample s({}, [](Sample& x) { x.fill(x.p, 100); });
  CHECK(s.forwarded() == std::pair(Numbers{}, 7.0F));
}

TEST_CASE("a copy that is written a second time stays", "[forward]") {
  Sample s([](Sample& x) { x.fill(x.s, 10); });
  CHECK(s.forwarded() == std::pair(Numbers{}, 14.0F));
}

TEST_CASE("a copy stays where a reader cannot reach PSUM", "[forward]") {
  // Both inputs of a tensor_tensor may not be in PSUM; neither does a DMA read it here.
  Sample s({}, [](Sample& x) {
    x.b.op("dma_copy", {{"dst", PB::arg(x.b.all(x.out))}, {"src", PB::arg(x.b.all(x.s))}});
  });
  CHECK(s.forwarded().first.empty());
}
