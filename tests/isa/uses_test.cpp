// Tests the table of readers and writers of each tensor: by hand, and after changes against a
// program that is analysed anew.
#include "isa/program/uses.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "isa/program/footprint.hpp"
#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dtype;
using isa::Engine;
using isa::Uses;
using PB = test::ProgramBuilder;

namespace {

using Numbers = std::vector<std::uint32_t>;

Numbers list(Uses::Numbers numbers) { return {numbers.begin(), numbers.end()}; }

// 0: a = 1; 1: b = a + a; 2: a = a + b, in place; 3: c = b.
struct Sample {
  PB b;
  std::uint32_t one, two, three, unused;
  Sample() {
    const auto tile = [&](const char* name) { return b.sbuf(name, Dtype::kFloat32, {32, 16}); };
    one = tile("a"), two = tile("b"), three = tile("c"), unused = tile("d");
    b.op("memset", {{"dst", PB::arg(b.all(one))}, {"value", PB::arg(1.0)}}, Engine::kVector);
    add(two, one, one);
    add(one, one, two);
    copy(three, two);
  }
  void add(std::uint32_t to, std::uint32_t x, std::uint32_t y) {
    b.op("tensor_tensor",
         {{"dst", PB::arg(b.all(to))},
          {"data1", PB::arg(b.all(x))},
          {"data2", PB::arg(b.all(y))},
          {"op", PB::arg(isa::AluOp::kAdd)}},
         Engine::kVector);
  }
  void copy(std::uint32_t to, std::uint32_t from) {
    b.op("tensor_copy", {{"dst", PB::arg(b.all(to))}, {"src", PB::arg(b.all(from))}},
         Engine::kVector);
  }
};

}  // namespace

TEST_CASE("uses are what a reader of the program finds", "[uses]") {
  Sample s;
  const Uses uses(s.b.program());
  CHECK(list(uses.writers(s.one)) == Numbers{0, 2});
  CHECK(list(uses.readers(s.one)) == Numbers{1});  // 2 writes it too
  CHECK(uses.users(s.one) == Numbers{0, 1, 2});
  CHECK(list(uses.readers(s.two)) == Numbers{2, 3});
  CHECK(uses.writes(s.two) == 1);
  CHECK(uses.first(s.two) == 1);
  CHECK(uses.last(s.two) == 3);
  CHECK(uses.users(s.three) == Numbers{3});
  CHECK_FALSE(uses.any(s.unused));
  CHECK(uses.direct(s.two));
  CHECK(uses.fixed(s.two));
}

TEST_CASE("an index is a use that cannot follow its tensor", "[uses]") {
  PB b;
  const auto x = b.hbm("x", Dtype::kFloat32, {64, 16});
  const auto rows = b.sbuf("rows", Dtype::kInt32, {32, 1});
  const auto t = b.sbuf("t", Dtype::kFloat32, {32, 16});
  const isa::DynamicOffset* gather = b.program().add_dynamic(
      {.kind = isa::DynamicOffset::Kind::kVector, .index = b.all(rows), .stride = 16});
  b.op("dma_copy", {{"dst", PB::arg(b.all(t))},
                    {"src", PB::arg(b.view(x, {{16, 32}, {1, 16}}, 0, -1, -1, gather))}});
  const Uses uses(b.program());
  CHECK(list(uses.readers(rows)) == Numbers{0});
  CHECK_FALSE(uses.direct(rows));
  CHECK(uses.fixed(rows));
  CHECK_FALSE(uses.fixed(x));
  CHECK(uses.direct(t));
}

TEST_CASE("redirected uses are those of the changed program", "[uses]") {
  Sample s;
  s.copy(s.unused, s.three);  // 4
  isa::Program& p = s.b.program();
  Uses uses(p);
  for (const auto& [from, to] : {std::pair{s.three, s.two}, std::pair{s.two, s.unused}}) {
    for (const std::uint32_t i : list(uses.readers(from))) {
      std::vector<isa::Arg> args(p.insts()[i].args.begin(), p.insts()[i].args.end());
      for (isa::Arg& arg : args) {
        if (arg.kind == isa::Arg::Kind::kTensor && arg.tensor->tensor == from) {
          arg.tensor = s.b.all(to);
        }
      }
      const std::uint64_t before = p.edits();
      p.set_args(i, args);
      CHECK(p.edits() != before);
    }
    uses.redirect(from, to);
  }
  // 2: a = a + d; 3: c = d; 4: d = d, in place.
  const Uses anew(p);
  CHECK(list(uses.readers(s.two)).empty());
  CHECK(list(anew.readers(s.two)).empty());
  Numbers readers = list(uses.readers(s.unused));
  std::sort(readers.begin(), readers.end());
  CHECK(readers == Numbers{2, 3, 4});
  CHECK(list(anew.readers(s.unused)) == Numbers{2, 3});
  CHECK(uses.last(s.unused) == anew.last(s.unused));
  CHECK(list(uses.writers(s.unused)) == list(anew.writers(s.unused)));
}

TEST_CASE("counters of edits say if cached facts of a program still hold", "[uses]") {
  Sample s;
  isa::Program& p = s.b.program();
  std::uint64_t seen = p.edits();
  const auto edited = [&] { return std::exchange(seen, p.edits()) != seen; };
  CHECK_FALSE(edited());
  p.set_address(s.unused, 4096);
  CHECK_FALSE(edited());
  isa::Program::Version own = p.version();
  CHECK_FALSE(edited());
  s.b.sbuf("e", Dtype::kFloat32, {32, 16});
  CHECK(edited());
  p.reorder(Numbers{0, 1, 3, 2});
  CHECK(edited());
  p.remove(Numbers{2});
  CHECK(edited());
  p.set_engine(0, Engine::kGpSimd);
  CHECK(edited());
  p.set_partition(s.three, 32);
  CHECK(edited());
  p.exchange(own);
  CHECK(edited());
  CHECK(Uses(p).users(s.three) == Numbers{3});
}

TEST_CASE("all of a tile is every byte of every partition", "[uses]") {
  PB b;
  const auto t = b.sbuf("t", Dtype::kFloat32, {64, 16}, 32);
  isa::Program& p = b.program();
  const auto reached = [&](const isa::TensorRef* ref) {
    const auto r = isa::reached_bytes(*ref, p);
    return std::pair{r.first, r.last};
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CHECK(isa::is_whole(*b.all(t), p));
  CHECK(reached(b.all(t)) == Pair{0, 64});
  // In another type it is all of the bytes, but not the tile; of another order nothing is said.
  CHECK_FALSE(isa::reaches_all(*b.view(t, {{1, 4}, {4, 4}}), p));
  CHECK(isa::reaches_all(*b.as(b.all(t), Dtype::kInt32), p));
  CHECK_FALSE(isa::is_whole(*b.as(b.all(t), Dtype::kInt32), p));
  // A half, the other half, every second element, half of the partitions, an address of run time.
  CHECK(reached(b.view(t, {{1, 8}})) == Pair{0, 32});
  CHECK(reached(b.view(t, {{1, 8}}, 8)) == Pair{32, 64});
  CHECK_FALSE(isa::reaches_all(*b.view(t, {{1, 8}}, 8), p));
  CHECK(isa::reached_bytes(*b.view(t, {{2, 8}}), p).none());
  CHECK(isa::reached_bytes(*b.view(t, {{1, 16}}, 0, 32, 32), p).none());
  CHECK(isa::reached_bytes(*b.view(t, {{1, 16}}, 0, 64, 32), p).none());
  const isa::DynamicOffset* moved =
      p.add_dynamic({.kind = isa::DynamicOffset::Kind::kRegister, .stride = 1});
  CHECK(isa::reached_bytes(*b.view(t, {{1, 8}}, 0, -1, -1, moved), p).none());
}

TEST_CASE("operands in flat lists are those of the instructions", "[uses]") {
  Sample s;
  isa::Program& p = s.b.program();
  const auto half = s.b.sbuf("half", Dtype::kFloat16, {32, 64});
  for (const std::int64_t offset : {0, 3}) {
    const isa::TensorRef* strided = s.b.view(half, {{2, 16}}, offset);
    s.b.op("tensor_copy", {{"dst", PB::arg(s.b.all(s.three))}, {"src", PB::arg(strided)}},
           Engine::kVector);
  }
  p.set_address(half, 4096);
  isa::Operands operands(p);
  const auto check = [&] {
    REQUIRE(operands.instructions() == p.insts().size());
    for (std::size_t i = 0; i < p.insts().size(); ++i) {
      std::size_t k = 0;
      isa::for_each_tensor(p.insts()[i],
                           [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
                             const isa::Operand& operand = operands.of(i)[k++];
                             const isa::Operands::Reach& reach = operands.reach(operand);
                             const isa::Footprint f = isa::static_footprint(ref, p);
                             const std::int64_t base = p.tensor(ref).address;
                             CHECK(operand.tensor() == ref.tensor);
                             CHECK(operand.space() == ref.space);
                             CHECK(operand.write() == write);
                             CHECK(operand.is(isa::Operand::kWhole) == isa::reaches_all(ref, p));
                             CHECK(reach.first + base == f.first);
                             CHECK(reach.last + base == f.last);
                             CHECK(reach.dense() == f.dense());
                             CHECK(reach.partition_end - reach.partition == 32);
                             if (!f.dense()) CHECK(operands.footprint(reach, base).dims == f.dims);
                           });
      CHECK(operands.of(i).size() == k);
    }
  };
  check();
  const Numbers order = {0, 1, 3, 2, 4, 5};
  const std::uint64_t before = p.operand_edits();
  p.set_engine(0, Engine::kGpSimd);
  CHECK(p.operand_edits() == before);
  p.reorder(order);
  CHECK(p.operand_edits() != before);
  operands.reorder(order);
  check();
  CHECK(operands.bytes(half) == 128);
}
