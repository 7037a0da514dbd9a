// Tests the activation instruction: its scale, bias, function and running sums.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/program_builder.hpp"

using namespace nkisim::isa;
using nkisim::test::Named;
using nkisim::test::ProgramBuilder;
using PB = ProgramBuilder;
using Catch::Contains;

namespace {

constexpr int kReset = 1, kReduce = 2, kResetReduce = 3, kLoadReduce = 4;

struct Setup {
  explicit Setup(std::string_view target = "trn2")
      : b(target),
        x(b.sbuf("x", Dtype::kFloat32, {2, 3})),
        y(b.sbuf("y", Dtype::kFloat32, {2, 3})),
        acc(b.sbuf("acc", Dtype::kFloat32, {2, 1})),
        col(b.sbuf("col", Dtype::kFloat32, {2, 1})),
        half(b.sbuf("half", Dtype::kBfloat16, {2, 1})) {}
  ProgramBuilder b;
  std::uint32_t x, y, acc, col, half;
  const Inst& call(std::string_view op, ActFn fn, std::vector<Named> more = {}) {
    const OpSpec& spec = *find_op(op);
    std::vector<Arg> args(spec.params.size());
    more.insert(more.begin(),
                {{"dst", PB::arg(b.all(y))}, {"op", PB::arg(fn)}, {"data", PB::arg(b.all(x))}});
    for (const auto& m : more) args[static_cast<std::size_t>(param_index(spec, m.name))] = m.arg;
    Inst inst;
    inst.op = op_id(spec);
    return b.program().append(inst, args);
  }
  std::string refuse(std::string_view op, ActFn fn, std::vector<Named> more) {
    return PB::error_of([&] { call(op, fn, std::move(more)); });
  }
};

}  // namespace

TEST_CASE("activation scales, biases and applies") {
  Setup s;
  s.call("activation", ActFn::kSquare,
         {{"scale", PB::arg(2.0)}, {"bias", PB::arg(s.b.all(s.col))}});
  s.b.set(s.x, {1, 2, 3, -1, -2, -3});
  s.b.set(s.col, {1, 0.5F});
  s.b.run();
  CHECK(s.b.get(s.y) == std::vector<float>{9, 25, 49, 2.25F, 12.25F, 30.25F});
}

TEST_CASE("activation keeps its sums in registers") {
  Setup s;
  const auto acc = [&] { return PB::arg(s.b.all(s.acc)); };
  s.call("activation", ActFn::kCopy, {{"reduce_cmd", PB::choice(kResetReduce)}});
  s.call("activation", ActFn::kCopy, {});  // idle: registers stay
  s.call("activation", ActFn::kSquare,
         {{"reduce_op", PB::arg(AluOp::kAdd)},
          {"reduce_cmd", PB::choice(kReduce)},
          {"reduce_res", acc()}});
  s.b.set(s.x, {1, 2, 3, -1, -2, -3});
  s.b.run();
  CHECK(s.b.get(s.acc) == std::vector<float>{6 + 14, -6 + 14});

  Setup r;
  r.call("activation", ActFn::kCopy, {{"reduce_cmd", PB::choice(kResetReduce)}});
  r.call("activation", ActFn::kCopy,
         {{"reduce_cmd", PB::choice(kReset)}, {"reduce_res", PB::arg(r.b.all(r.acc))}});
  r.b.set(r.x, {1, 2, 3, -1, -2, -3});
  r.b.run();
  CHECK(r.b.get(r.acc) == std::vector<float>{0, 0});
}

TEST_CASE("activation reads its accumulator out as a second part") {
  Setup s;
  Expansion e = s.b.parts(s.call("activation", ActFn::kExp));
  REQUIRE(e.parts.size() == 1);
  CHECK(name(e.parts[0].opcode) == "ACTIVATE");
  CHECK(e.parts[0].unit == Unit::kScalar);
  CHECK(e.parts[0].elements == 3);
  CHECK(e.parts[0].act_table != 0);
  CHECK(e.parts[0].sbuf_read_bytes == 24);
  CHECK(s.b.parts(s.call("activation", ActFn::kCopy)).parts[0].act_table == 0);
  e = s.b.parts(
      s.call("activation_reduce", ActFn::kExp,
             {{"reduce_op", PB::arg(AluOp::kAdd)}, {"reduce_res", PB::arg(s.b.all(s.acc))}}));
  REQUIRE(e.parts.size() == 2);
  CHECK(e.parts[0].elements == 3);
  CHECK(name(e.parts[1].opcode) == "ACT_READ_ACCUMULATOR");
  CHECK(e.parts[1].sbuf_write_bytes == 8);
  CHECK(e.parts[0].sbuf_write_bytes == 24);
}

TEST_CASE("activation_reduce adds up the result of its function") {
  Setup s;
  s.call("activation_reduce", ActFn::kAbs,
         {{"reduce_op", PB::arg(AluOp::kAdd)}, {"reduce_res", PB::arg(s.b.all(s.acc))}});
  s.b.set(s.x, {1, 2, 3, -1, -2, -7});
  s.b.run();
  CHECK(s.b.get(s.acc) == std::vector<float>{6, 10});
  for (const char* target : {"trn1", "trn2", "trn3"}) {
    Setup other(target);
    for (const AluOp op : {AluOp::kMaximum, AluOp::kMinimum, AluOp::kMultiply, AluOp::kSubtract}) {
      CHECK_THAT(other.refuse(
                     "activation_reduce", ActFn::kAbs,
                     {{"reduce_op", PB::arg(op)}, {"reduce_res", PB::arg(other.b.all(other.acc))}}),
                 Contains("add (of others: tensor_reduce"));
    }
  }
}

TEST_CASE("activation refuses what the documents forbid") {
  Setup s;
  const auto tf = s.b.sbuf("tf", Dtype::kTfloat32, {2, 1});
  const auto wide = s.b.sbuf("wide", Dtype::kFloat32, {2, 2});
  const auto all = [&](std::uint32_t id) { return PB::arg(s.b.all(id)); };
  const auto refuse = [&](std::vector<Named> more) {
    return s.refuse("activation", ActFn::kExp, std::move(more));
  };
  CHECK_THAT(refuse({{"bias", all(wide)}}), Contains("bias is sbuf[2 x 2] float32"));
  CHECK_THAT(refuse({{"bias", all(tf)}}), Contains("bias is tfloat32"));
  CHECK_THAT(refuse({{"scale", all(s.half)}}), Contains("scale is bfloat16; float32"));
  CHECK(refuse({{"bias", all(s.half)}}).empty());
  CHECK(refuse({{"bias", PB::arg(0.5)}}).empty());
  CHECK_THAT(refuse({{"reduce_op", PB::arg(AluOp::kMaximum)}}), Contains("add is required"));
  CHECK_THAT(refuse({{"reduce_cmd", PB::choice(kLoadReduce)}}),
             Contains("reset_reduce is required"));
  CHECK_THAT(refuse({{"reduce_res", all(wide)}}), Contains("reduce_res is"));
  CHECK_THAT(refuse({{"dst", all(wide)}}), Contains("the shape of data"));
  Setup old("trn1");
  CHECK_THAT(old.refuse("activation", ActFn::kExp, {{"bias", PB::arg(0.5)}}),
             Contains("a tensor of one column on trn1"));
  CHECK_THAT(old.refuse("activation", ActFn::kReciprocal, {{"bias", PB::arg(old.b.all(old.col))}}),
             Contains("trn2 is the first target"));
}

TEST_CASE("activate2 runs its stages") {
  Setup s("trn3");
  const auto run = [](AluOp op0, AluOp op1, bool reverse0, bool reverse1) {
    Setup t("trn3");
    t.call("activate2", ActFn::kPrelu,
           {{"imm0", PB::arg(2.0)},
            {"imm1", PB::arg(5.0)},
            {"op0", PB::arg(op0)},
            {"op1", PB::arg(op1)},
            {"relu_param", PB::arg(t.b.all(t.col))},
            {"reverse0", PB::arg(reverse0)},
            {"reverse1", PB::arg(reverse1)},
            {"reduce_op", PB::arg(AluOp::kAbsMax)},
            {"reduce_res", PB::arg(t.b.all(t.acc))},
            {"reduce_cmd", PB::choice(kResetReduce)}});
    t.b.set(t.x, {1, 2, 3, -1, -2, -3});
    t.b.set(t.col, {10, 0.5F});
    t.b.run();
    auto all = t.b.get(t.y);
    for (float a : t.b.get(t.acc)) all.push_back(a);
    return all;
  };
  using V = std::vector<float>;
  CHECK(run(AluOp::kMultiply, AluOp::kAdd, false, false) == V{7, 9, 11, 3, 1, -0.5F, 11, 3});
  CHECK(run(AluOp::kMultiply, AluOp::kSubtract, false, true) == V{3, 1, -10, 7, 9, 11, -10, 11});
  CHECK(run(AluOp::kSubtract, AluOp::kBypass, true, false) == V{1, 0, -10, 3, 4, 5, -10, 5});
  CHECK(run(AluOp::kBypass, AluOp::kBypass, false, false) ==
        V{1, 2, 3, -0.5F, -1, -1.5F, 3, -1.5F});

  const auto refuse = [&](AluOp op0, AluOp op1, std::vector<Named> more = {}) {
    more.insert(more.end(), {{"op0", PB::arg(op0)}, {"op1", PB::arg(op1)}});
    if (more.size() == 2 || more.front().name != "imm0") {
      more.insert(more.end(), {{"imm0", PB::arg(1.0)}, {"imm1", PB::arg(1.0)}});
    }
    return s.refuse("activate2", ActFn::kCopy, std::move(more));
  };
  CHECK_THAT(refuse(AluOp::kAdd, AluOp::kAdd), Contains("(op0, op1) is (add, add)"));
  CHECK_THAT(refuse(AluOp::kBypass, AluOp::kAdd), Contains("without op0"));
  CHECK_THAT(refuse(AluOp::kBypass, AluOp::kBypass, {{"reverse0", PB::arg(true)}}),
             Contains("reverse0 is given without op0"));
  CHECK_THAT(refuse(AluOp::kAdd, AluOp::kBypass, {{"reverse1", PB::arg(true)}}),
             Contains("reverse1 is given without op1"));
  CHECK_THAT(refuse(AluOp::kAdd, AluOp::kBypass, {{"reduce_op", PB::arg(AluOp::kMultiply)}}),
             Contains("abs_max or abs_min"));
  CHECK_THAT(refuse(AluOp::kAdd, AluOp::kBypass, {{"reduce_cmd", PB::choice(kResetReduce)}}),
             Contains("reduce_op is missing"));
  CHECK_THAT(refuse(AluOp::kAdd, AluOp::kBypass,
                    {{"imm0", PB::arg(s.b.all(s.col))}, {"imm1", PB::arg(s.b.all(s.half))}}),
             Contains("the dtype of imm0"));
  Setup old;
  CHECK_THAT(old.refuse("activate2", ActFn::kCopy,
                        {{"imm0", PB::arg(1.0)},
                         {"imm1", PB::arg(1.0)},
                         {"op0", PB::arg(AluOp::kBypass)},
                         {"op1", PB::arg(AluOp::kBypass)}}),
             Contains("trn3 is the first target"));
}
