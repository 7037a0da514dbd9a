// Tests how the compiler chooses the start partition of tensors for which the kernel gives none.
#include "compiler/placement/partitions.hpp"

#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using compiler::move_partitions;
using compiler::partition_groups;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;

namespace {

// sum = a + b, part = x (128 partitions) + c on 64 partitions, product = d^T e; f is not used.
struct Sample {
  PB b;
  std::uint32_t a, other, sum, x, c, part, d, e, product, out, f;
  Sample() {
    const auto tile = [&](const char* name, std::int64_t rows) {
      return b.sbuf(name, Dtype::kFloat32, {rows, 16});
    };
    a = tile("a", 64), other = tile("b", 64), sum = tile("sum", 64);
    x = tile("x", 128), c = tile("c", 64), part = tile("part", 64);
    d = tile("d", 32), e = tile("e", 32), f = tile("f", 32);
    product = b.psum("product", Dtype::kFloat32, {16, 16});
    out = b.hbm("out", Dtype::kFloat32, {64, 16});
    for (const std::uint32_t t : {a, other, x, c, d, e}) {
      b.op("memset", {{"dst", PB::arg(b.all(t))}, {"value", PB::arg(1.0 + t)}}, Engine::kVector);
    }
    add(b.all(sum), b.all(a), b.all(other));
    add(b.all(part), b.view(x, {{1, 16}}, 0, 0, 64), b.all(c));
    b.op("nc_matmul", {{"dst", PB::arg(b.all(product))},
                       {"stationary", PB::arg(b.all(d))},
                       {"moving", PB::arg(b.all(e))}});
    b.op("dma_copy", {{"dst", PB::arg(b.all(out))}, {"src", PB::arg(b.all(sum))}});
  }
  void add(const isa::TensorRef* dst, const isa::TensorRef* left, const isa::TensorRef* right) {
    b.op("tensor_tensor",
         {{"dst", PB::arg(dst)},
          {"data1", PB::arg(left)},
          {"data2", PB::arg(right)},
          {"op", PB::arg(isa::AluOp::kAdd)}},
         Engine::kVector);
  }
  std::vector<bool> placed() { return std::vector<bool>(b.program().tensors().size(), false); }
  std::vector<std::byte> result() {
    isa::Memory memory(b.program());
    isa::interpret(b.program(), memory);
    return memory.read(out);
  }
};

}  // namespace

TEST_CASE("operands that an instruction reads start at one partition, its result may differ",
          "[partitions]") {
  Sample s;
  const auto groups = partition_groups(s.b.program(), s.placed());
  CHECK(groups[s.a] >= 0);
  CHECK(groups[s.a] == groups[s.other]);
  CHECK(groups[s.sum] >= 0);
  CHECK(groups[s.sum] != groups[s.a]);
  CHECK(groups[s.part] >= 0);
  CHECK(groups[s.c] == -1);  // read with x, which takes all partitions
  CHECK(groups[s.x] == -1);
  CHECK(groups[s.d] == -1);  // TensorE's
  CHECK(groups[s.e] == -1);
  CHECK(groups[s.product] == -1);  // PSUM
}

TEST_CASE("an address of the kernel's keeps its partitions", "[partitions]") {
  Sample s;
  auto placed = s.placed();
  placed[s.a] = true;
  const auto groups = partition_groups(s.b.program(), placed);
  CHECK(groups[s.a] == -1);
  CHECK(groups[s.other] == -1);  // must start where a does
  CHECK(groups[s.sum] >= 0);
}

TEST_CASE("tensors with addresses keep their partitions, others start at the first",
          "[partitions]") {
  for (const bool given : {true, false}) {
    Sample s;
    isa::Program& program = s.b.program();
    auto placed = s.placed();
    REQUIRE(move_partitions(program, {{s.a, 64}, {s.other, 64}, {s.part, 64}}));
    for (const std::uint32_t t : {s.a, s.other, s.part}) placed[t] = given;
    (void)partition_groups(program, placed);
    for (const std::uint32_t t : {s.a, s.other, s.part}) {
      CHECK(program.tensor(t).partition == (given ? 64 : 0));
    }
  }
}

TEST_CASE("moved tensors compute the same, and a move that a rule forbids is none",
          "[partitions]") {
  Sample s;
  isa::Program& program = s.b.program();
  const auto expected = s.result();
  CHECK_FALSE(move_partitions(program, {{s.sum, 32}}));  // 64 partitions from 32
  CHECK(program.tensor(s.sum).partition == 0);
  REQUIRE(move_partitions(program, {{s.a, 64}, {s.other, 64}, {s.part, 64}}));
  CHECK(program.tensor(s.a).partition == 64);
  bool found = false;
  for (const isa::Inst& inst : program.insts()) {
    isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool) {
      if (ref.tensor == s.a || ref.tensor == s.part) CHECK(ref.partition == 64);
      if (ref.tensor == s.sum || ref.tensor == s.x) CHECK(ref.partition == 0);
      found |= ref.tensor == s.a;
    });
  }
  CHECK(found);
  CHECK(s.result() == expected);
  CHECK(partition_groups(program, s.placed())[s.a] >= 0);  // back at 0, may move again
  CHECK(program.tensor(s.a).partition == 0);
  CHECK(s.result() == expected);
}
