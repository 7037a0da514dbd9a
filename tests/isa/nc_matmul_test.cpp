// Tests matrix products of the tensor engine, their accumulation and the transpose mode.
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <limits>

#include "isa/machine/gemm.hpp"
#include "tests/support/program_builder.hpp"

using namespace nkisim::isa;
using nkisim::test::ProgramBuilder;
using PB = ProgramBuilder;

namespace {

// Small integers: every product and sum below is exact in every dtype used.
std::vector<float> pattern(std::size_t n, int modulus, int shift) {
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) {
    v[i] = static_cast<float>(
        static_cast<int>((i * 7 + i / 5) % static_cast<std::size_t>(modulus)) - shift);
  }
  return v;
}

std::vector<float> product(const std::vector<float>& st, const std::vector<float>& mv, int k, int m,
                           int n) {
  std::vector<float> out(static_cast<std::size_t>(m * n));
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int r = 0; r < k; ++r) {
        sum += static_cast<double>(st[static_cast<std::size_t>(r * m + i)]) *
               static_cast<double>(mv[static_cast<std::size_t>(r * n + j)]);
      }
      out[static_cast<std::size_t>(i * n + j)] = static_cast<float>(sum);
    }
  }
  return out;
}

struct Setup {
  explicit Setup(std::string_view target, Dtype in = Dtype::kBfloat16, int k = 16, int m = 8,
                 int n = 24, Dtype out = Dtype::kFloat32)
      : b(target),
        st(b.sbuf("st", in, {k, m})),
        mv(b.sbuf("mv", in, {k, n})),
        dst(b.psum("dst", out, {m, n})) {}
  ProgramBuilder b;
  std::uint32_t st, mv, dst;
  const Inst& matmul(std::initializer_list<nkisim::test::Named> more = {}) {
    std::vector<nkisim::test::Named> args = {{"dst", PB::arg(b.all(dst))},
                                             {"stationary", PB::arg(b.all(st))},
                                             {"moving", PB::arg(b.all(mv))}};
    args.insert(args.end(), more.begin(), more.end());
    const OpSpec& spec = *find_op("nc_matmul");
    std::vector<Arg> values(spec.params.size());
    for (const auto& a : args) values[static_cast<std::size_t>(param_index(spec, a.name))] = a.arg;
    Inst inst;
    inst.op = op_id(spec);
    return b.program().append(inst, values);
  }
};

}  // namespace

TEST_CASE("nc_matmul multiplies and accumulates") {
  for (Dtype d : {Dtype::kBfloat16, Dtype::kFloat16, Dtype::kFloat32, Dtype::kTfloat32,
                  Dtype::kFloat8E4m3, Dtype::kFloat8E5m2}) {
    Setup s("trn2", d);
    const auto st = pattern(16 * 8, 5, 2), mv = pattern(16 * 24, 3, 1);
    s.matmul();
    s.matmul({{"accumulate", PB::arg(true)}});
    s.b.set(s.st, st);
    s.b.set(s.mv, mv);
    s.b.run();
    auto want = product(st, mv, 16, 8, 24);
    for (float& w : want) w *= 2;
    CHECK(s.b.get(s.dst) == want);
  }
}

TEST_CASE("nc_matmul reports undefined accumulation") {
  Setup s("trn2");
  s.matmul({{"accumulate", PB::arg(true)}});
  s.b.set(s.st, pattern(16 * 8, 5, 2));
  s.b.set(s.mv, pattern(16 * 24, 3, 1));
  s.b.run();
  CHECK(s.b.memory().bits(s.dst).find_undefined(0, 1) == 0);

  for (const char* target : {"trn1", "trn2", "trn3"}) {
    Setup f(target);
    const auto x = f.b.sbuf("x", Dtype::kFloat32, {8, 24});
    f.b.op("tensor_tensor", {{"dst", PB::arg(f.b.all(f.dst))},
                             {"data1", PB::arg(f.b.all(x))},
                             {"data2", PB::arg(f.b.all(x))},
                             {"op", PB::arg(AluOp::kAdd)}});
    f.matmul({{"accumulate", PB::arg(true)}});
    const auto st = pattern(16 * 8, 5, 2), mv = pattern(16 * 24, 3, 1);
    f.b.set(f.st, st);
    f.b.set(f.mv, mv);
    f.b.set(x, std::vector<float>(8 * 24, 1.0F));
    nkisim::isa::InterpretOptions options;
    std::vector<std::string> warnings;
    options.conditions.warn = [&](const nkisim::isa::Error& e) {
      CHECK(e.rule() == nkisim::isa::Rule::psum_written_by_two_engines);
      warnings.push_back(e.message());
    };
    f.b.run(options);
    auto want = product(st, mv, 16, 8, 24);
    for (float& w : want) w += 2.0F;
    CHECK(f.b.get(f.dst) == want);
    const bool allowed = std::string_view(target) == "trn3";
    CHECK(warnings.size() == (allowed ? 0 : 1));
    f.b.set(x, std::vector<float>(8 * 24, 1.0F));
    options.conditions.rules = nkisim::isa::RulePolicy({.strict = true});
    const std::string error = PB::error_of([&] { f.b.run(options); });
    if (allowed) {
      CHECK(error.empty());
    } else {
      CHECK_THAT(error, Catch::Contains("another engine wrote last"));
    }
    options.conditions.rules = nkisim::isa::RulePolicy({.strict = true, .sdk = 31});
    CHECK(PB::error_of([&] { f.b.run(options); }).empty());
  }
}

TEST_CASE("nc_matmul in transpose mode moves bits") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> data(8 * 4);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
  data[5] = nan;
  data[6] = -inf;
  data[7] = -0.0F;
  std::vector<float> identity(64, 0.0F);
  for (std::size_t i = 0; i < 8; ++i) identity[i * 9] = 1.0F;
  for (Dtype out : {Dtype::kBfloat16, Dtype::kFloat32}) {
    Setup s("trn2", Dtype::kBfloat16, 8, 4, 8, out);
    s.matmul({{"is_transpose", PB::arg(true)}});
    s.b.set(s.st, data);
    s.b.set(s.mv, identity);
    s.b.run();
    const auto got = s.b.get(s.dst);
    for (std::size_t k = 0; k < 8; ++k) {
      for (std::size_t m = 0; m < 4; ++m) {
        const float x = data[k * 4 + m], y = got[m * 8 + k];
        CHECK(std::signbit(x) == std::signbit(y));
        CHECK((x == y || (std::isnan(x) && std::isnan(y))));
      }
    }
  }
  // Before trn2 the same instruction is a product, and one NaN spoils its whole output row.
  Setup old("trn1", Dtype::kBfloat16, 8, 4, 8);
  old.matmul({{"is_transpose", PB::arg(true)}});
  old.b.set(old.st, data);
  old.b.set(old.mv, identity);
  old.b.run();
  CHECK(std::isnan(old.b.get(old.dst)[8 + 0]));

  Setup bad("trn2", Dtype::kBfloat16, 8, 4, 8);
  bad.matmul({{"is_transpose", PB::arg(true)}});
  bad.b.set(bad.st, data);
  identity[1] = 1.0F;
  bad.b.set(bad.mv, identity);
  CHECK_THAT(PB::error_of([&] { bad.b.run(); }), Catch::Contains("without a single 1 in column 1"));
}

TEST_CASE("nc_matmul widens fp8 transposes to 16 bits") {
  Setup s("trn2", Dtype::kFloat8E4m3, 4, 2, 4, Dtype::kUint16);
  s.matmul({{"is_transpose", PB::arg(true)}});
  s.b.set_words<std::uint8_t>(s.st, {1, 2, 3, 4, 5, 6, 7, 0xff});
  std::vector<float> identity(16, 0.0F);
  for (std::size_t i = 0; i < 4; ++i) identity[i * 5] = 1.0F;
  s.b.set(s.mv, identity);
  s.b.run();
  CHECK(s.b.get_words<std::uint16_t>(s.dst) ==
        std::vector<std::uint16_t>{1, 3, 5, 7, 2, 4, 6, 0xff});
}

TEST_CASE("nc_matmul double_row contracts both halves") {
  ProgramBuilder b("trn2");
  const auto st = b.sbuf("st", Dtype::kFloat8E4m3, {4, 2, 3});
  const auto mv = b.sbuf("mv", Dtype::kFloat8E5m2, {4, 2, 5});
  const auto dst = b.psum("dst", Dtype::kFloat32, {3, 5});
  const Inst& inst = b.op("nc_matmul", {{"dst", PB::arg(b.all(dst))},
                                        {"stationary", PB::arg(b.all(st))},
                                        {"moving", PB::arg(b.all(mv))},
                                        {"perf_mode", PB::choice(1)}});
  const auto x = pattern(24, 5, 2), y = pattern(40, 3, 1);
  b.set(st, x);
  b.set(mv, y);
  b.run();
  CHECK(b.get(dst) == product(x, y, 8, 3, 5));
  const Expansion e = b.parts(inst);
  REQUIRE(e.parts.size() == 2);
  CHECK(e.parts[1].elements == 5);
  CHECK(e.parts[1].rows == 4);
  CHECK(e.parts[1].flops == 2 * 8 * 3 * 5);
  CHECK((e.parts[1].features & (kFeatDoubleRow | kFeatFp8)) == (kFeatDoubleRow | kFeatFp8));
}

TEST_CASE("nc_matmul rounds each accumulation into bfloat16 PSUM on trn3") {
  Setup s("trn3", Dtype::kBfloat16, 1, 1, 2, Dtype::kBfloat16);
  s.matmul();
  s.matmul({{"accumulate", PB::arg(true)}});
  s.b.set(s.st, {1.0F});
  s.b.set(s.mv, {257.0F / 2, 1.0F});  // 128.5 twice: 128.5 is exact, 257 rounds to 256 (even)
  s.b.run();
  CHECK(s.b.get(s.dst) == std::vector<float>{256.0F, 2.0F});
}

TEST_CASE("nc_matmul becomes passes of two parts") {
  const auto opcodes = [](const Expansion& e) {
    std::string text;
    for (const Part& p : e.parts) text += std::string(name(p.opcode)) + " ";
    return text;
  };
  Setup bf("trn2", Dtype::kBfloat16, 128, 128, 512);
  Expansion e = bf.b.parts(bf.matmul());
  CHECK(opcodes(e) == "LDWEIGHTS MATMUL ");
  CHECK(e.parts[0].elements == 128);
  CHECK(e.parts[0].sbuf_read_bytes == 128 * 128 * 2);
  CHECK(e.parts[0].flops == 0);
  CHECK(e.parts[1].elements == 512);
  CHECK(e.parts[1].flops == 2LL * 128 * 128 * 512);
  CHECK(e.parts[1].psum_write_bytes == 128 * 512 * 4);
  CHECK(e.parts[1].psum_read_bytes == 0);

  Setup f32("trn2", Dtype::kFloat32, 128, 128, 512);
  e = f32.b.parts(f32.matmul());
  CHECK(opcodes(e) == "LDWEIGHTS MATMUL LDWEIGHTS MATMUL ");
  CHECK(e.parts[1].flops == 2LL * 128 * 128 * 512);  // each pass, as the profiler counts
  CHECK(e.parts[3].flops == 2LL * 128 * 128 * 512);
  CHECK((e.parts[0].features & kFeatFp32LowPass) != 0);
  CHECK((e.parts[2].features & kFeatFp32LowPass) == 0);
  CHECK(opcodes(f32.b.parts(f32.matmul({{"is_stationary_onezero", PB::arg(true)}}))) ==
        "LDWEIGHTS MATMUL ");
  CHECK(opcodes(f32.b.parts(f32.matmul({{"is_moving_onezero", PB::arg(true)}}))) ==
        "LDWEIGHTS MATMUL LDWEIGHTS MATMUL ");
  CHECK(opcodes(f32.b.parts(f32.matmul({{"is_transpose", PB::arg(true)}}))) == "LDWEIGHTS MATMUL ");
}

TEST_CASE("nc_matmul refuses what the documents forbid") {
  const auto refuse = [](Setup& s, std::initializer_list<nkisim::test::Named> args) {
    return PB::error_of([&] { s.matmul(args); });
  };
  using Catch::Contains;
  Setup wide("trn2", Dtype::kBfloat16, 16, 8, 513);
  CHECK_THAT(refuse(wide, {}), Contains("at most 512 columns (N)"));
  Setup wide3("trn3", Dtype::kBfloat16, 16, 8, 2048);
  CHECK(refuse(wide3, {}).empty());
  {
    ProgramBuilder b("trn2");
    const auto st = b.sbuf("st", Dtype::kFloat32, {16, 8});
    const auto mv = b.sbuf("mv", Dtype::kBfloat16, {16, 8});
    const auto dst = b.psum("dst", Dtype::kFloat32, {8, 8});
    const auto in_hbm = b.hbm("h", Dtype::kBfloat16, {16, 8});
    const auto call = [&](std::uint32_t d, std::uint32_t s, std::uint32_t m) {
      return PB::error_of([&] {
        b.op("nc_matmul", {{"dst", PB::arg(b.all(d))},
                           {"stationary", PB::arg(b.all(s))},
                           {"moving", PB::arg(b.all(m))}});
      });
    };
    CHECK_THAT(call(dst, st, mv), Contains("both float32 or tfloat32, or neither"));
    CHECK_THAT(call(mv, mv, mv), Contains("dst is in SBUF; PSUM is required"));
    CHECK_THAT(call(dst, in_hbm, mv), Contains("stationary is in HBM; SBUF is required"));
  }
  Setup out16("trn2", Dtype::kBfloat16, 16, 8, 8, Dtype::kBfloat16);
  CHECK_THAT(refuse(out16, {}), Contains("float32 on trn2 outside transpose mode"));
  Setup fn("trn2", Dtype::kFloat8E4m3fn);
  CHECK_THAT(refuse(fn, {}), Contains("trn3 is the first target"));
  Setup t("trn2", Dtype::kBfloat16, 32, 32, 24);
  CHECK_THAT(refuse(t, {{"tile_size", t.b.list({32, 32})}}), Contains("both or neither"));
  CHECK_THAT(refuse(t, {{"tile_size", t.b.list({16, 32})}, {"tile_position", t.b.list({0, 0})}}),
             Contains("32, 64 or 128 each"));
  CHECK_THAT(refuse(t, {{"tile_size", t.b.list({32, 32})}, {"tile_position", t.b.list({16, 0})}}),
             Contains("a multiple of tile_size"));
  CHECK_THAT(refuse(t, {{"tile_size", t.b.list({64, 32})}, {"tile_position", t.b.list({128, 0})}}),
             Contains("inside the 128 x 128 array"));
  CHECK(refuse(t, {{"tile_size", t.b.list({32, 32})}, {"tile_position", t.b.list({96, 64})}})
            .empty());
  Setup t1("trn1", Dtype::kBfloat16, 32, 32, 24);
  CHECK_THAT(refuse(t1, {{"tile_size", t1.b.list({32, 64})}, {"tile_position", t1.b.list({0, 0})}}),
             Contains("64 or 128 each on trn1"));
  CHECK_THAT(refuse(t1, {{"perf_mode", PB::choice(1)}}), Contains("trn2 is the first target"));
  Setup k64("trn2", Dtype::kBfloat16, 64, 32, 24);
  CHECK_THAT(
      refuse(k64, {{"tile_size", k64.b.list({32, 32})}, {"tile_position", k64.b.list({0, 0})}}),
      Contains("at most 32 partitions (K)"));
  CHECK_THAT(refuse(t, {{"perf_mode", PB::choice(1)}}), Contains("in double_row mode"));
  Setup f8("trn2", Dtype::kFloat8E4m3);
  CHECK_THAT(refuse(f8, {{"perf_mode", PB::choice(1)}}), Contains("[K, 2, columns]"));
  CHECK_THAT(refuse(f8, {{"perf_mode", PB::choice(1)}, {"is_transpose", PB::arg(true)}}),
             Contains("cannot be combined with is_transpose"));
  CHECK_THAT(refuse(f8, {{"perf_mode", PB::choice(1)},
                         {"tile_size", f8.b.list({64, 64})},
                         {"tile_position", f8.b.list({0, 0})}}),
             Contains("column tiling"));
}

TEST_CASE("nc_matmul stays in one PSUM bank before trn3") {
  for (const char* target : {"trn2", "trn3"}) {
    ProgramBuilder b(target);
    const auto st = b.sbuf("st", Dtype::kBfloat16, {4, 4});
    const auto mv = b.sbuf("mv", Dtype::kBfloat16, {4, 512});
    const auto dst = b.psum("dst", Dtype::kFloat32, {4, 1024});
    const std::string error = PB::error_of([&] {
      b.op("nc_matmul", {{"dst", PB::arg(b.view(dst, {{1, 512}}, 256))},
                         {"stationary", PB::arg(b.all(st))},
                         {"moving", PB::arg(b.all(mv))}});
    });
    if (std::string_view(target) == "trn2") {
      CHECK_THAT(error, Catch::Contains("in more than one bank"));
    } else {
      CHECK(error.empty());
    }
  }
}

TEST_CASE("nc_matmul costs little more than its product", "[.bench]") {
  Setup s("trn2", Dtype::kBfloat16, 128, 128, 512);
  s.matmul();
  s.b.set(s.st, pattern(128 * 128, 5, 2));
  s.b.set(s.mv, pattern(128 * 512, 3, 1));
  CoreState state;
  EvalContext ctx(s.b.program(), s.b.memory(), state);
  std::vector<float> a(128 * 128, 1.0F), x(128 * 512, 1.0F), c(128 * 512);
  const auto time = [](const std::function<void()>& fn) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; ++i) fn();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
               .count() /
           200;
  };
  const double gemm = time([&] {
    matmul(fp32_rows(a.data(), 128), fp32_rows(x.data(), 512), c.data(), 512, 128, 128, 512, false,
           Products::kExact);
  });
  const double whole = time([&] { ctx.run(s.b.program().insts()[0]); });
  WARN("gemm " << gemm << " us, nc_matmul " << whole << " us");
}

TEST_CASE("nc_matmul takes a pass for each block that a smaller array holds") {
  Setup s("trn2", Dtype::kBfloat16, 128, 96, 512);
  const Inst& inst = s.matmul();
  Machine machine = s.b.program().machine();
  machine.pe_rows = 64;
  machine.pe_columns = 32;
  Expansion e;
  expand(inst, machine, e);
  // 128 / 64 blocks of rows by 96 / 32 of columns, a load and a multiply each.
  REQUIRE(e.parts.size() == 2 * 2 * 3);
  std::int64_t flops = 0, loaded = 0, moved = 0, written = 0, read = 0;
  for (const Part& part : e.parts) {
    CHECK(part.rows == 64);
    CHECK(part.columns == 32);
    flops += part.flops;
    written += part.psum_write_bytes;
    read += part.psum_read_bytes;
    (part.unit == Unit::kTensor ? loaded : moved) += part.sbuf_read_bytes;
  }
  CHECK(flops == 2LL * 128 * 96 * 512);
  CHECK(loaded == 128 * 96 * 2);
  CHECK(moved == 3LL * 128 * 512 * 2);   // streams once for each block of columns
  CHECK(written == 2LL * 96 * 512 * 4);  // once for each block of rows
  CHECK(read == 1LL * 96 * 512 * 4);     // the second adds to the first
  CHECK(e.parts[0].elements == 32);      // columns of a load
  CHECK(e.parts[1].elements == 512);

  machine.pe_rows = machine.pe_columns = 256;  // more than operands can fill
  e.clear();
  expand(inst, machine, e);
  REQUIRE(e.parts.size() == 2);
  CHECK(e.parts[1].rows == 128);
  CHECK(e.parts[1].columns == 96);
}

TEST_CASE("tiles of the array lie within a smaller one") {
  Setup s("trn2", Dtype::kBfloat16, 32, 32, 64);
  const Inst& inst =
      s.matmul({{"tile_position", s.b.list({96, 64})}, {"tile_size", s.b.list({32, 32})}});
  Machine machine = s.b.program().machine();
  machine.pe_rows = machine.pe_columns = 64;
  Expansion e;
  expand(inst, machine, e);
  REQUIRE(e.parts.size() == 2);
  CHECK(e.parts[1].row_start == 96 - 64);
  CHECK(e.parts[1].column_start == 0);
}
