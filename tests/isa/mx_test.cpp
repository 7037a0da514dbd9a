// Tests MX (microscaling) formats: quantization and products.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/program_builder.hpp"

using namespace nkisim::isa;
using nkisim::test::ProgramBuilder;
using PB = ProgramBuilder;
using Catch::Contains;

namespace {

struct Quantize {
  explicit Quantize(std::int64_t p = 64, std::int64_t n = 8, Dtype out = Dtype::kFloat8E4m3fnX4,
                    std::string_view target = "trn3")
      : b(target),
        src(b.sbuf("src", Dtype::kBfloat16, {p, n})),
        dst(b.sbuf("dst", out, {p, n / 4})),
        scale(b.sbuf("scale", Dtype::kFloat8E8m0fnu, {p <= 32 ? p / 8 : p, n / 4})) {}
  ProgramBuilder b;
  std::uint32_t src, dst, scale;
  void call() {
    b.op("quantize_mx", {{"dst", PB::arg(b.all(dst))},
                         {"src", PB::arg(b.all(src))},
                         {"dst_scale", PB::arg(b.all(scale))}});
  }
};

}  // namespace

TEST_CASE("quantize_mx reserves one binade above the largest value") {
  Quantize q;
  q.call();
  std::vector<float> x(64 * 8, 0.0F);
  // Group rows 32..39, columns 4..7: largest magnitude 3.5, floor(log2) = 1, X = 2^(1-7) = 2^-6.
  x[33 * 8 + 5] = -3.5F;
  x[34 * 8 + 4] = 1.0F + 1.0F / 16;  // 68 in units of X: between 64 and 72, rounds to 64 (even)
  x[0] = 448.0F;                     // group 0, 0: floor(log2) = 8, X = 2
  q.b.set(q.src, x);
  q.b.run();
  const auto values = q.b.get(q.dst);
  CHECK(values[33 * 8 + 5] == -224.0F);
  CHECK(values[34 * 8 + 4] == 64.0F);
  CHECK(values[0] == 224.0F);
  const auto scales = q.b.get_words<std::uint8_t>(q.scale);
  CHECK(scales[0] == 128);           // row 0: 2^1
  CHECK(scales[1] == 0);             // zeros: 2^-127
  CHECK(scales[32 * 2 + 1] == 121);  // second quadrant, first row: 2^-6
}

// Release notes of NKI 0.5.0: the scale is twice what it was, and values were clamped before.
TEST_CASE("quantize_mx before SDK 2.31 uses the whole range and saturates") {
  Quantize q;
  q.b.program().set_sdk(30);
  q.call();
  std::vector<float> x(64 * 8, 0.0F);
  x[33 * 8 + 5] = -3.5F;  // X = 2^(1-8) = 2^-7
  x[0] = 500.0F;          // X = 2^(8-8) = 1
  x[1] = -0.75F;
  q.b.set(q.src, x);
  q.b.run();
  const auto values = q.b.get(q.dst);
  CHECK(values[33 * 8 + 5] == -448.0F);
  CHECK(values[0] == 448.0F);
  CHECK(values[1] == -0.75F);
  const auto scales = q.b.get_words<std::uint8_t>(q.scale);
  CHECK(scales[0] == 127);
  CHECK(scales[1] == 0);  // zeros: 2^-127, of every release
  CHECK(scales[32 * 2 + 1] == 120);
}

TEST_CASE("nc_matmul_mx multiplies dequantised operands") {
  ProgramBuilder b("trn3");
  const auto st = b.sbuf("st", Dtype::kFloat8E4m3fnX4, {32, 2});
  const auto mv = b.sbuf("mv", Dtype::kFloat8E5m2X4, {32, 3});
  // Scales of the moving operand share the quadrant with those of the stationary one.
  const auto scales = b.sbuf("scales", Dtype::kUint8, {16, 3});
  const auto dst = b.psum("dst", Dtype::kFloat32, {2, 3});
  const auto* ss = b.view(scales, {{1, 2}}, 0, 0, 4);
  const auto* ms = b.view(scales, {{1, 3}}, 0, 4, 4);
  const Inst& inst = b.op("nc_matmul_mx", {{"dst", PB::arg(b.all(dst))},
                                           {"stationary", PB::arg(b.all(st))},
                                           {"moving", PB::arg(b.all(mv))},
                                           {"stationary_scale", PB::arg(ss)},
                                           {"moving_scale", PB::arg(ms)}});
  std::vector<float> x(32 * 2 * 4), y(32 * 3 * 4), scale(16 * 3, 127.0F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2.0F;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 3) - 1.0F;
  for (std::size_t g = 0; g < 4; ++g) {
    for (std::size_t c = 0; c < 3; ++c) {
      scale[g * 3 + c] = static_cast<float>(126 + g);            // 2^(g-1)
      scale[(4 + g) * 3 + c] = static_cast<float>(127 + c - g);  // 2^(c-g)
    }
  }
  b.set(st, x);
  b.set(mv, y);
  b.set(scales, scale);
  b.run();
  const auto got = b.get(dst);
  for (std::size_t m = 0; m < 2; ++m) {
    for (std::size_t n = 0; n < 3; ++n) {
      double sum = 0;
      for (std::size_t k = 0; k < 32; ++k) {
        for (std::size_t q = 0; q < 4; ++q) {
          // 2^(g-1) * 2^(n-g) = 2^(n-1) whatever the group g
          sum += static_cast<double>(x[(k * 2 + m) * 4 + q]) *
                 static_cast<double>(y[(k * 3 + n) * 4 + q]) *
                 std::exp2(static_cast<double>(n) - 1.0);
        }
      }
      CHECK(static_cast<double>(got[m * 3 + n]) == sum);
    }
  }
  const Expansion e = b.parts(inst);
  REQUIRE(e.parts.size() == 2);
  CHECK(name(e.parts[1].opcode) == "MATMUL_MX");
  CHECK(e.parts[1].flops == 2 * 4 * 32 * 2 * 3);
}

TEST_CASE("MX instructions refuse what the documents forbid") {
  const auto refuse = [](Quantize q) { return PB::error_of([&] { q.call(); }); };
  CHECK(refuse(Quantize(32, 4)).empty());
  CHECK_THAT(refuse(Quantize(32, 4, Dtype::kFloat8E4m3fnX4, "trn2")),
             Contains("trn3 is the first"));
  CHECK_THAT(refuse(Quantize(40, 4)), Contains("a multiple of 32 partitions"));
  CHECK_THAT(refuse(Quantize(32, 6)), Contains("a multiple of 4 columns"));
  CHECK_THAT(refuse(Quantize(32, 4, Dtype::kFloat4E2m1fnX4)), Contains("dst is float4_e2m1fn_x4"));

  ProgramBuilder b("trn3");
  const auto op = Dtype::kFloat8E4m3fnX4;
  const auto st = b.sbuf("st", op, {64, 2});
  const auto odd = b.sbuf("odd", op, {64, 3});
  const auto k40 = b.sbuf("k40", op, {40, 2});
  const auto mv = b.sbuf("mv", op, {64, 4});
  const auto scale = b.sbuf("scale", Dtype::kUint8, {64, 4});
  const auto dst = b.psum("dst", Dtype::kFloat32, {2, 4});
  const auto call = [&](std::uint32_t s, std::uint32_t m, const TensorRef* ss,
                        std::vector<nkisim::test::Named> more = {}) {
    const OpSpec& spec = *find_op("nc_matmul_mx");
    std::vector<Arg> args(spec.params.size());
    more.insert(more.end(), {{"dst", PB::arg(b.all(dst))},
                             {"stationary", PB::arg(b.all(s))},
                             {"moving", PB::arg(b.all(m))},
                             {"stationary_scale", PB::arg(ss)},
                             {"moving_scale", PB::arg(b.all(scale))}});
    for (const auto& a : more) args[static_cast<std::size_t>(param_index(spec, a.name))] = a.arg;
    Inst inst;
    inst.op = op_id(spec);
    return PB::error_of([&] { b.program().append(inst, args); });
  };
  CHECK(call(st, mv, b.all(scale)).empty());
  CHECK_THAT(call(odd, mv, b.all(scale)), Contains("an even number of columns"));
  CHECK_THAT(call(k40, k40, b.all(scale)), Contains("a multiple of 32 partitions (K)"));
  CHECK_THAT(call(st, mv, b.view(scale, {{1, 2}}, 0, 0, 8)), Contains("at least 36 partitions"));
  CHECK_THAT(call(st, mv, b.view(scale, {{1, 2}}, 0, 2, 36)),
             Contains("a start 0, 4, 8 or 12 partitions into a quadrant"));
  CHECK_THAT(call(st, mv, b.all(scale),
                  {{"tile_size", b.list({64, 64})}, {"tile_position", b.list({0, 0})}}),
             Contains("row tiling only"));
}

TEST_CASE("exponential subtracts, sums and reads out") {
  ProgramBuilder b("trn3");
  const auto x = b.sbuf("x", Dtype::kFloat32, {2, 2});
  const auto y = b.sbuf("y", Dtype::kFloat32, {2, 2});
  const auto mx = b.sbuf("mx", Dtype::kFloat32, {2, 1});
  const auto acc = b.sbuf("acc", Dtype::kFloat32, {2, 1});
  const auto call = [&](std::vector<nkisim::test::Named> more) {
    const OpSpec& spec = *find_op("exponential");
    std::vector<Arg> args(spec.params.size());
    more.insert(more.end(), {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(x))}});
    for (const auto& a : more) args[static_cast<std::size_t>(param_index(spec, a.name))] = a.arg;
    Inst inst;
    inst.op = op_id(spec);
    return PB::error_of([&] { b.program().append(inst, args); });
  };
  CHECK(call({{"max_value", PB::arg(b.all(mx))},
              {"reduce_cmd", PB::choice(4)},
              {"reduce_init", PB::arg(10.0)}})
            .empty());
  CHECK(call({{"max_value", PB::arg(b.all(mx))},
              {"reduce_cmd", PB::choice(2)},
              {"reduce_res", PB::arg(b.all(acc))}})
            .empty());
  CHECK_THAT(call({{"reduce_init", PB::arg(1.0)}}), Contains("without load_reduce"));
  CHECK_THAT(call({{"reduce_cmd", PB::choice(1)}}), Contains("reduce_cmd is reset"));
  b.set(x, {5, 5, -INFINITY, 3});
  b.set(mx, {5, 3});
  b.run();
  CHECK(b.get(y) == std::vector<float>{1, 1, 0, 1});
  CHECK(b.get(acc) == std::vector<float>{14, 12});
  CHECK(b.parts(b.program().insts()[1]).parts.size() == 2);
}
