// Tests the pass that computes a repeated result once (common subexpressions).
#include "compiler/passes/common_results.hpp"

#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::AluOp;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;

namespace {

using Numbers = std::vector<std::uint32_t>;

// x (64 partitions, two halves of other values) and two results that `make` computes from it; both
// are stored.
struct Sample {
  PB b;
  std::uint32_t x, first, second, out;
  explicit Sample(const std::function<void(Sample&)>& make) {
    x = b.sbuf("x", Dtype::kFloat32, {64, 16});
    first = b.sbuf("first", Dtype::kFloat32, {32, 16});
    second = b.sbuf("second", Dtype::kFloat32, {32, 16});
    out = b.hbm("out", Dtype::kFloat32, {64, 16});
    fill(half(0), 2);
    fill(half(32), 3);
    make(*this);
    store(first, 0);
    store(second, 32);
  }
  const isa::TensorRef* half(int partition) { return b.view(x, {{1, 16}}, 0, partition, 32); }
  void fill(const isa::TensorRef* tile, double value) {
    b.op("memset", {{"dst", PB::arg(tile)}, {"value", PB::arg(value)}}, Engine::kVector);
  }
  void add(std::uint32_t dst, const isa::TensorRef* data, double value, AluOp op = AluOp::kAdd) {
    b.op("tensor_scalar",
         {{"dst", PB::arg(b.all(dst))},
          {"data", PB::arg(data)},
          {"op0", PB::arg(op)},
          {"operand0", PB::arg(value)}},
         Engine::kVector);
  }
  void store(std::uint32_t tile, std::int64_t row) {
    b.op("dma_copy", {{"dst", PB::arg(b.view(out, {{16, 32}, {1, 16}}, row * 16))},
                      {"src", PB::arg(b.all(tile))}});
  }
  // The number of dropped instructions; and the values of both results.
  std::tuple<std::size_t, float, float> reused() {
    const Numbers dropped =
        compiler::reuse_results(b.program(), std::vector<bool>(b.program().tensors().size(), false),
                                isa::Uses(b.program()));
    b.program().remove(dropped);
    b.run();
    const auto values = b.get(out);
    return {dropped.size(), values.front(), values.back()};
  }
};

}  // namespace

TEST_CASE("the same computation of the same operand is done once", "[reuse]") {
  Sample s([](Sample& t) {
    t.add(t.first, t.half(0), 5);
    t.add(t.second, t.half(0), 5);
  });
  CHECK(s.reused() == std::tuple(std::size_t{1}, 7.0F, 7.0F));
}

TEST_CASE("an activation is done once unless it uses the reduce registers", "[reuse]") {
  const auto reused = [](int command) {
    Sample s([&](Sample& t) {
      for (const auto dst : {t.first, t.second}) {
        t.b.op("activation", {{"dst", PB::arg(t.b.all(dst))},
                              {"op", PB::arg(isa::ActFn::kSquare)},
                              {"data", PB::arg(t.half(32))},
                              {"reduce_cmd", PB::choice(command)}});
      }
    });
    return s.reused();
  };
  CHECK(reused(0) == std::tuple(std::size_t{1}, 9.0F, 9.0F));  // idle
  CHECK(reused(3) == std::tuple(std::size_t{0}, 9.0F, 9.0F));  // reset_reduce
}

TEST_CASE("operands, constants and operators distinguish computations", "[reuse]") {
  Sample partition([](Sample& t) {
    t.add(t.first, t.half(0), 5);
    t.add(t.second, t.half(32), 5);
  });
  CHECK(partition.reused() == std::tuple(std::size_t{0}, 7.0F, 8.0F));
  Sample constant([](Sample& t) {
    t.add(t.first, t.half(0), 5);
    t.add(t.second, t.half(0), 6);
  });
  CHECK(constant.reused() == std::tuple(std::size_t{0}, 7.0F, 8.0F));
  Sample op([](Sample& t) {
    t.add(t.first, t.half(0), 5);
    t.add(t.second, t.half(0), 5, AluOp::kMultiply);
  });
  CHECK(op.reused() == std::tuple(std::size_t{0}, 7.0F, 10.0F));
}

TEST_CASE("an operand written in between, or seen as another dtype, is another", "[reuse]") {
  Sample written([](Sample& t) {
    t.add(t.first, t.half(0), 5);
    t.fill(t.half(0), 20);
    t.add(t.second, t.half(0), 5);
  });
  CHECK(written.reused() == std::tuple(std::size_t{0}, 7.0F, 25.0F));
  Sample dtype([](Sample& t) {
    t.add(t.first, t.half(0), 5);
    t.add(t.second, t.b.as(t.half(0), Dtype::kInt32), 0.5);
  });
  CHECK(std::get<0>(dtype.reused()) == 0);
  Sample same_constant([](Sample& t) {
    t.add(t.first, t.half(0), 1);
    t.add(t.second, t.b.as(t.half(0), Dtype::kInt32), 1);
  });
  // The bits of 2.0F as an integer, and one more.
  CHECK(same_constant.reused() == std::tuple(std::size_t{0}, 3.0F, 1073741824.0F));
}
