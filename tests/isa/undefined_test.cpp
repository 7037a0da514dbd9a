// Tests which results depend on never-written (undefined) inputs, by class of instruction.
#include "isa/machine/undefined.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::AluOp;
using isa::Dtype;
using isa::TensorRole;
using PB = test::ProgramBuilder;

namespace {

// "..uu" for a row of four elements whose last two are undefined, rows joined by '|'.
std::string undefined(PB& b, std::uint32_t id) {
  const isa::Tensor& t = b.program().tensor(id);
  const std::int64_t size = isa::size_bytes(t.dtype), columns = t.elements() / t.shape[0];
  std::string text;
  for (std::int64_t i = 0; i < t.elements(); ++i) {
    if (i > 0 && i % columns == 0) text += '|';
    text += b.memory().bits(id).find_undefined(i * size, size) >= 0 ? 'u' : '.';
  }
  return text;
}

// Rows of four elements: a is defined, h only in its first two columns.
struct Tiles {
  explicit Tiles(std::string_view target = "trn2", Dtype dtype = Dtype::kFloat32)
      : b(target),
        a(b.sbuf("a", dtype, {2, 4})),
        h(b.sbuf("h", dtype, {2, 4})),
        d(b.sbuf("d", dtype, {2, 4})) {
    b.set(a, {1, 2, 3, 4, 5, 6, 7, 8});
    if (isa::is_integer(dtype)) {
      b.op("memset", {{"dst", PB::arg(half())}, {"value", PB::arg(2)}});
    } else {
      b.op("memset", {{"dst", PB::arg(half())}, {"value", PB::arg(2.0)}});
    }
  }
  const isa::TensorRef* half() { return b.view(h, {{1, 2}}); }
  isa::Arg all(std::uint32_t id) { return PB::arg(b.all(id)); }
  PB b;
  std::uint32_t a, h, d;
};

std::string message_of(PB& b) {
  isa::InterpretOptions options;
  options.conditions.rules = isa::RulePolicy({.error = {"output_partly_written"}});
  return PB::error_of([&] { b.run(options); });
}

}  // namespace

TEST_CASE("elementwise instructions carry undefined elements to their places") {
  Tiles t;
  SECTION("tensor_tensor") {
    t.b.op("tensor_tensor", {{"dst", t.all(t.d)},
                             {"data1", t.all(t.a)},
                             {"data2", t.all(t.h)},
                             {"op", PB::arg(AluOp::kAdd)}});
    t.b.run();
    CHECK(undefined(t.b, t.d) == "..uu|..uu");
    CHECK(t.b.get(t.d)[1] == 4);
    CHECK(std::isnan(t.b.get(t.d)[2]));  // as AWS's simulator has it
  }
  SECTION("in place") {
    t.b.op("tensor_tensor", {{"dst", t.all(t.h)},
                             {"data1", t.all(t.h)},
                             {"data2", t.all(t.h)},
                             {"op", PB::arg(AluOp::kMultiply)}});
    t.b.run();
    CHECK(undefined(t.b, t.h) == "..uu|..uu");
    CHECK(t.b.get(t.h)[5] == 4);
  }
  SECTION("times zero is not zero: what was never written may be NaN") {
    t.b.op("tensor_scalar", {{"dst", t.all(t.d)},
                             {"data", t.all(t.h)},
                             {"op0", PB::arg(AluOp::kMultiply)},
                             {"operand0", PB::arg(0.0)}});
    t.b.run();
    CHECK(undefined(t.b, t.d) == "..uu|..uu");
  }
  SECTION("a comparison that hardly any value meets") {
    t.b.op("tensor_scalar", {{"dst", t.all(t.d)},
                             {"data", t.all(t.h)},
                             {"op0", PB::arg(AluOp::kEqual)},
                             {"operand0", PB::arg(12345.0)}});
    t.b.run();
    CHECK(undefined(t.b, t.d) == "..uu|..uu");
  }
  SECTION("a column of operands spreads along its row") {
    const auto c = t.b.sbuf("c", Dtype::kFloat32, {2, 1});
    t.b.op("memset", {{"dst", PB::arg(t.b.view(c, {{1, 1}}, 0, 0, 1))}, {"value", PB::arg(1.0)}});
    t.b.op("tensor_scalar", {{"dst", t.all(t.d)},
                             {"data", t.all(t.a)},
                             {"op0", PB::arg(AluOp::kAdd)},
                             {"operand0", t.all(c)}});
    t.b.run();
    CHECK(undefined(t.b, t.d) == "....|uuuu");
  }
}

TEST_CASE("bits that are masked out are defined") {
  Tiles t("trn2", Dtype::kInt32);
  const auto d = t.d;
  SECTION("and 0") {
    t.b.op("tensor_scalar", {{"dst", t.all(d)},
                             {"data", t.all(t.h)},
                             {"op0", PB::arg(AluOp::kBitwiseAnd)},
                             {"operand0", PB::arg(0)}});
    t.b.run();
    CHECK(undefined(t.b, d) == "....|....");
  }
  SECTION("and 1") {
    t.b.op("tensor_scalar", {{"dst", t.all(d)},
                             {"data", t.all(t.h)},
                             {"op0", PB::arg(AluOp::kBitwiseAnd)},
                             {"operand0", PB::arg(1)}});
    t.b.run();
    CHECK(undefined(t.b, d) == "..uu|..uu");
  }
  SECTION("integers that were never written are 4") {
    t.b.op("tensor_copy", {{"dst", t.all(d)}, {"src", t.all(t.h)}});
    t.b.run();
    CHECK(undefined(t.b, d) == "..uu|..uu");
    CHECK(t.b.get_words<std::int32_t>(d) == std::vector<std::int32_t>{2, 2, 4, 4, 2, 2, 4, 4});
  }
}

TEST_CASE("what a later instruction overwrites is defined again") {
  Tiles t;
  t.b.op("tensor_scalar", {{"dst", t.all(t.h)},
                           {"data", t.all(t.h)},
                           {"op0", PB::arg(AluOp::kAdd)},
                           {"operand0", PB::arg(1.0)}});
  t.b.op("tensor_copy",
         {{"dst", PB::arg(t.b.view(t.h, {{1, 2}}, 2))}, {"src", PB::arg(t.b.view(t.h, {{1, 2}}))}});
  t.b.run();
  CHECK(undefined(t.b, t.h) == "....|....");
  CHECK(t.b.get(t.h) == std::vector<float>(8, 3.0F));
}

TEST_CASE("reductions, products and registers mix what they read") {
  Tiles t;
  SECTION("tensor_reduce along the row") {
    const auto r = t.b.sbuf("r", Dtype::kFloat32, {2, 2});
    const auto reduce = [&](const isa::TensorRef* data, std::int64_t column) {
      t.b.op("tensor_reduce", {{"dst", PB::arg(t.b.view(r, {{1, 1}}, column))},
                               {"op", PB::arg(AluOp::kMaximum)},
                               {"data", PB::arg(data)},
                               {"axis", t.b.list({1})}});
    };
    reduce(t.b.all(t.h), 0);
    reduce(t.half(), 1);
    t.b.run();
    CHECK(undefined(t.b, r) == "u.|u.");
  }
  SECTION("the columns of a product") {
    const auto p = t.b.psum("p", Dtype::kFloat32, {4, 4});
    t.b.op("nc_matmul", {{"dst", t.all(p)}, {"stationary", t.all(t.a)}, {"moving", t.all(t.h)}});
    t.b.run();
    CHECK(undefined(t.b, p) == "..uu|..uu|..uu|..uu");
    CHECK(t.b.get(p)[0] == 1 * 2 + 5 * 2);
  }
  SECTION("accumulation onto what was never written") {
    const auto p = t.b.psum("p", Dtype::kFloat32, {4, 4});
    t.b.op("nc_matmul", {{"dst", t.all(p)},
                         {"stationary", t.all(t.a)},
                         {"moving", t.all(t.a)},
                         {"accumulate", PB::arg(true)}});
    t.b.run();
    CHECK(undefined(t.b, p) == "uuuu|uuuu|uuuu|uuuu");
  }
  SECTION("a reduce register keeps it until it is reset") {
    const auto r = t.b.sbuf("r", Dtype::kFloat32, {2, 3});
    const auto reduce = [&](std::uint32_t data, int command, std::int64_t column) {
      t.b.op("tensor_scalar_reduce", {{"dst", t.all(t.d)},
                                      {"data", t.all(data)},
                                      {"op0", PB::arg(AluOp::kAdd)},
                                      {"operand0", PB::arg(0.0)},
                                      {"reduce_op", PB::arg(AluOp::kAdd)},
                                      {"reduce_cmd", PB::choice(command)},
                                      {"reduce_res", PB::arg(t.b.view(r, {{1, 1}}, column))}});
    };
    reduce(t.h, 3, 0);  // reset_reduce
    reduce(t.a, 2, 1);  // reduce: on top
    reduce(t.a, 3, 2);
    t.b.run();
    CHECK(undefined(t.b, r) == "uu.|uu.");
    CHECK(t.b.get(r)[2] == 10);
  }
}

TEST_CASE("selections shut out what they do not take") {
  Tiles t;
  const auto mask = t.b.sbuf("mask", Dtype::kUint8, {2, 4});
  t.b.set(mask, {1, 0, 1, 0, 1, 0, 1, 0});
  t.b.op("tensor_copy_predicated",
         {{"dst", t.all(t.a)}, {"src", t.all(t.h)}, {"predicate", t.all(mask)}});
  t.b.run();
  CHECK(undefined(t.b, t.a) == "..u.|..u.");
  CHECK(t.b.get(t.a)[1] == 2);
}

TEST_CASE("what an undefined predicate or bound decides is undefined") {
  Tiles t;
  SECTION("by element, also where both choices are the same") {
    const auto mask = t.b.sbuf("mask", Dtype::kUint8, {2, 4});
    t.b.op("memset", {{"dst", PB::arg(t.b.view(mask, {{1, 2}}))}, {"value", PB::arg(0)}});
    t.b.set(t.d, std::vector<float>(8, 1.0F));
    t.b.op("tensor_copy_predicated",
           {{"dst", t.all(t.a)}, {"src", t.all(t.d)}, {"predicate", t.all(mask)}});
    t.b.run();
    CHECK(undefined(t.b, t.a) == "..uu|..uu");  // a[0, 0] is 1, too, and stays
    CHECK(t.b.get(t.a)[1] == 2);
    CHECK(t.b.get(t.a)[3] == 1);  // what was never written is 4: taken
  }
  SECTION("also where what stands there for it takes nothing") {
    const auto mask = t.b.sbuf("mask", Dtype::kUint8, {2, 4});
    t.b.op("memset", {{"dst", PB::arg(t.b.view(mask, {{1, 2}}))}, {"value", PB::arg(1)}});
    t.b.set(t.d, std::vector<float>(8, 9.0F));
    t.b.op("tensor_copy_predicated", {{"dst", t.all(t.a)},
                                      {"src", t.all(t.d)},
                                      {"predicate", t.all(mask)},
                                      {"reverse_pred", PB::arg(true)}});
    t.b.run();
    CHECK(undefined(t.b, t.a) == "..uu|..uu");
    CHECK(t.b.get(t.a)[3] == 4);
  }
  // Few values meet an equality: that no evaluation differs proves nothing.
  for (const AluOp op : {AluOp::kGreaterEqual, AluOp::kEqual}) {
    SECTION("range_select: the row of a bound, " + std::string(name(op))) {
      const auto low = t.b.sbuf("low", Dtype::kFloat32, {2, 1}),
                 high = t.b.sbuf("high", Dtype::kFloat32, {2, 1});
      t.b.set(high, {4, 4});
      t.b.op("memset",
             {{"dst", PB::arg(t.b.view(low, {{1, 1}}, 0, 0, 1))}, {"value", PB::arg(0.0)}});
      t.b.op("range_select", {{"dst", t.all(t.d)},
                              {"on_true_tile", t.all(t.a)},
                              {"comp_op0", PB::arg(op)},
                              {"comp_op1", PB::arg(AluOp::kLess)},
                              {"bound0", t.all(low)},
                              {"bound1", t.all(high)},
                              {"on_false_value", PB::arg(-3.4028234663852886e38)}});
      t.b.run();
      CHECK(undefined(t.b, t.d) == "....|uuuu");
    }
  }
}

TEST_CASE("one DMA that comes to an element twice leaves it undefined if the values differ") {
  PB b;
  const auto x = b.hbm("x", Dtype::kFloat32, {3, 4}), y = b.hbm("y", Dtype::kFloat32, {4, 4});
  b.set(y, std::vector<float>(16, 9.0F));
  const auto run = [&](std::int64_t step, const std::vector<float>& values) {
    b.set(x, values);
    b.op("dma_copy",
         {{"dst", PB::arg(b.view(y, {{step, 3}, {1, 4}}))}, {"src", PB::arg(b.all(x))}});
    b.run();
    return undefined(b, y);
  };
  const std::vector<float> counted = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  SECTION("rows apart") { CHECK(run(4, counted) == "....|....|....|...."); }
  SECTION("rows that overlap by half") { CHECK(run(2, counted) == "..uu|uu..|....|...."); }
  SECTION("one row") { CHECK(run(0, counted) == "uuuu|....|....|...."); }
  SECTION("the same values") {
    CHECK(run(0, {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}) == "....|....|....|....");
  }
}

TEST_CASE("undefined elements move along: DMA with a cast, transposes, shuffles") {
  Tiles t;
  SECTION("dma_copy to another dtype and back") {
    const auto y = t.b.hbm("y", Dtype::kBfloat16, {2, 4});
    t.b.op("dma_copy", {{"dst", t.all(y)}, {"src", t.all(t.h)}});
    t.b.run();
    CHECK(undefined(t.b, y) == "..uu|..uu");
  }
  SECTION("nc_transpose") {
    const auto p = t.b.psum("p", Dtype::kFloat32, {4, 2});
    t.b.op("nc_transpose", {{"dst", t.all(p)}, {"data", t.all(t.h)}}, isa::Engine::kTensor);
    t.b.run();
    CHECK(undefined(t.b, p) == "..|..|uu|uu");
  }
}

TEST_CASE("an index or a register must be defined") {
  PB b;
  const auto x = b.hbm("x", Dtype::kFloat32, {8, 4}), d = b.sbuf("d", Dtype::kFloat32, {2, 4});
  b.set(x, std::vector<float>(32, 1.0F));
  SECTION("rows of a gather") {
    const auto index = b.sbuf("index", Dtype::kInt32, {2, 1});
    isa::DynamicOffset rows{
        .kind = isa::DynamicOffset::Kind::kVector, .index = b.all(index), .stride = 4};
    b.op("dma_copy",
         {{"dst", PB::arg(b.all(d))},
          {"src", PB::arg(b.view(x, {{4, 2}, {1, 4}}, 0, -1, -1, b.program().add_dynamic(rows)))}});
    CHECK(message_of(b) ==
          "index index of tensor x is undefined: byte 0 of tensor index on partition 0, which was "
          "never written");
  }
  SECTION("a register loaded from memory") {
    const auto index = b.sbuf("index", Dtype::kInt32, {1, 1});
    b.op("register_load", {{"dst", PB::reg(0)}, {"src", PB::arg(b.all(index))}});
    CHECK_THAT(message_of(b), Catch::Contains("src index is undefined"));
  }
  SECTION("a register never set") {
    isa::DynamicOffset offset{.reg = 5, .stride = 4};
    b.op("dma_copy",
         {{"dst", PB::arg(b.view(d, {{1, 4}}, 0, 0, 1))},
          {"src", PB::arg(b.view(x, {{1, 4}}, 0, -1, -1, b.program().add_dynamic(offset)))}});
    CHECK_THAT(message_of(b), Catch::Contains("register 5 is used but was never set"));
  }
  SECTION("a register allocated without a value") {
    b.op("register_alloc", {{"dst", PB::reg(1)}});
    b.op("loop_begin", {{"register", PB::reg(0)}, {"start", PB::arg(0)}, {"stop", PB::reg(1)}});
    b.op("loop_end", {});
    CHECK_THAT(message_of(b), Catch::Contains("register 1 is used but was never set"));
  }
}

TEST_CASE("outputs must be defined, and the message shows the way") {
  PB b;
  const auto t = b.sbuf("t", Dtype::kFloat32, {2, 4}), u = b.sbuf("u", Dtype::kFloat32, {2, 4});
  const auto y = b.hbm("y", Dtype::kFloat32, {2, 4});
  b.program().set_role(y, TensorRole::kOutput);
  SECTION("never written") {
    b.op("memset", {{"dst", PB::arg(b.all(t))}, {"value", PB::arg(1.0)}});
    b.op("dma_copy", {{"dst", PB::arg(b.view(y, {{4, 1}, {1, 4}}))},
                      {"src", PB::arg(b.view(t, {{1, 4}}, 0, 0, 1))}});
    CHECK(message_of(b) ==
          "output y is undefined in 4 of 8 elements, first at [1, 0]: no instruction wrote them "
          "(never written); nl.store or nisa.dma_copy to all of it is required");
    CHECK(std::isnan(b.get(y)[7]));
    CHECK(b.get(y)[0] == 1);
  }
  SECTION("computed from what was never written") {
    b.op("tensor_scalar", {{"dst", PB::arg(b.all(u))},
                           {"data", PB::arg(b.all(t))},
                           {"op0", PB::arg(AluOp::kAdd)},
                           {"operand0", PB::arg(1.0)}});
    b.op("dma_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(u))}});
    CHECK(message_of(b) ==
          "output y is undefined in 8 of 8 elements, first at [0, 0]: byte 0 of tensor t on "
          "partition 0, which was never written; first used by tensor_scalar, then dma_copy");
  }
  SECTION("thrown away") {
    b.op("tensor_scalar", {{"dst", PB::arg(b.all(u))},
                           {"data", PB::arg(b.all(t))},
                           {"op0", PB::arg(AluOp::kAdd)},
                           {"operand0", PB::arg(1.0)}});
    b.op("memset", {{"dst", PB::arg(b.all(u))}, {"value", PB::arg(1.0)}});
    b.op("dma_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(u))}});
    CHECK(message_of(b).empty());
    CHECK(b.get(y) == std::vector<float>(8, 1.0F));
  }
  SECTION("reported rather than thrown") {
    std::vector<std::string> said;
    isa::InterpretOptions options;
    options.conditions.rules = isa::RulePolicy({.warn = {"undefined_value"}});
    options.conditions.warn = [&](const isa::Error& e) { said.push_back(e.message()); };
    b.run(options);
    REQUIRE(said.size() == 1);
    CHECK_THAT(said[0], Catch::StartsWith("output y is undefined in 8 of 8 elements"));
  }
}

TEST_CASE("a tile that another one overwrote is undefined") {
  isa::Program program(*isa::find_machine("trn2"));
  const auto tile = [&](const char* name, std::int64_t address) {
    return program.add_tensor(
        {.name = name, .space = isa::Space::kSbuf, .shape = {2, 8}, .address = address});
  };
  const auto a = tile("a", 0), b = tile("b", 16);
  const auto y = program.add_tensor({.name = "y", .role = TensorRole::kOutput, .shape = {2, 8}});
  const auto add = [&](std::string_view name, std::vector<test::Named> args) {
    const isa::OpSpec* op = isa::find_op(name);
    std::vector<isa::Arg> values(op->params.size());
    for (const auto& [param, arg] : args) {
      values[static_cast<std::size_t>(isa::param_index(*op, param))] = arg;
    }
    isa::Inst inst;
    inst.op = isa::op_id(*op);
    program.append(inst, values);
  };
  const auto run = [&] {
    isa::Memory memory(program);
    return PB::error_of([&] { isa::interpret(program, memory); });
  };
  const auto all = [&](std::uint32_t id) { return PB::arg(program.whole(id)); };
  add("memset", {{"dst", all(a)}, {"value", PB::arg(1.0)}});
  SECTION("by the other's write") {
    add("memset", {{"dst", all(b)}, {"value", PB::arg(7.0)}});
    add("dma_copy", {{"dst", all(y)}, {"src", all(a)}});
    CHECK(run() ==
          "output y is undefined in 8 of 16 elements, first at [0, 4]: byte 16 of tensor a on "
          "partition 0, which tensor b at the same address overwrote (memset); first used by "
          "dma_copy");
  }
  SECTION("another's bytes are undefined") {
    add("dma_copy", {{"dst", all(y)}, {"src", all(b)}});
    CHECK_THAT(run(),
               Catch::Contains("byte 0 of tensor b on partition 0, which was never written"));
  }
  SECTION("one after the other is what addresses are for") {
    add("dma_copy", {{"dst", all(y)}, {"src", all(a)}});
    add("memset", {{"dst", all(b)}, {"value", PB::arg(7.0)}});
    add("dma_copy", {{"dst", all(y)}, {"src", all(b)}});
    CHECK(run().empty());
  }
}
