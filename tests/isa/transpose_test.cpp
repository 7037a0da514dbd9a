// Tests transposes on the tensor and vector engines and by DMA.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/program_builder.hpp"

using namespace nkisim::isa;
using nkisim::test::Named;
using nkisim::test::ProgramBuilder;
using PB = ProgramBuilder;
using Catch::Contains;

namespace {

template <typename T>
std::vector<T> iota(std::size_t n) {
  std::vector<T> v(n);
  std::iota(v.begin(), v.end(), T{0});
  return v;
}

const Inst& call(ProgramBuilder& b, std::string_view op, const TensorRef* dst,
                 std::string_view input, const TensorRef* src, std::vector<Named> more = {},
                 Engine engine = Engine::kAny) {
  const OpSpec& spec = *find_op(op);
  std::vector<Arg> args(spec.params.size());
  more.insert(more.begin(), {{"dst", PB::arg(dst)}, {input, PB::arg(src)}});
  for (const auto& m : more) args[static_cast<std::size_t>(param_index(spec, m.name))] = m.arg;
  Inst inst;
  inst.op = op_id(spec);
  inst.engine = engine;
  return b.program().append(inst, args);
}

}  // namespace

TEST_CASE("nc_transpose moves bits on either engine") {
  for (const bool vector : {false, true}) {
    ProgramBuilder b("trn2");
    const auto x = b.sbuf("x", Dtype::kBfloat16, {4, 3});
    const auto y =
        vector ? b.sbuf("y", Dtype::kBfloat16, {3, 4}) : b.psum("y", Dtype::kBfloat16, {3, 4});
    const Inst& inst = call(b, "nc_transpose", b.all(y), "data", b.all(x));
    CHECK(inst.engine == (vector ? Engine::kVector : Engine::kTensor));
    const Expansion e = b.parts(inst);
    CHECK(e.parts.size() == (vector ? 1 : 2));
    CHECK(name(e.parts.back().opcode) == (vector ? "TRANSPOSE" : "MATMUL"));
    CHECK((e.parts.back().features & kFeatTranspose) != 0);
    if (!vector) {
      CHECK(e.parts[0].elements == 3);
      CHECK(e.parts[1].elements == 4);
      CHECK(e.parts[1].flops == 2 * 4 * 3 * 4);
    }
    auto bits = iota<std::uint16_t>(12);
    bits[4] = 0x7f81;  // a signalling NaN keeps its payload
    b.set_words(x, bits);
    b.run();
    const auto got = b.get_words<std::uint16_t>(y);
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 3; ++j) CHECK(got[j * 4 + i] == bits[i * 3 + j]);
    }
  }
}

TEST_CASE("nc_transpose on trn1's tensor engine is a product") {
  ProgramBuilder b("trn1");
  const auto x = b.sbuf("x", Dtype::kFloat32, {4, 3});
  const auto y = b.psum("y", Dtype::kFloat32, {3, 4});
  const Inst& inst = call(b, "nc_transpose", b.all(y), "data", b.all(x));
  CHECK(b.parts(inst).parts.size() == 4);  // both halves of the FP32 weights
  auto v = iota<float>(12);
  v[4] = std::numeric_limits<float>::infinity();
  b.set(x, v);
  b.run();
  const auto got = b.get(y);
  CHECK(got[0] == 0.0F);
  CHECK(got[11] == 11.0F);
  CHECK(std::isinf(got[1 * 4 + 1]));
  CHECK(std::isnan(got[1 * 4 + 0]));
}

TEST_CASE("nc_transpose widens 8-bit data on the tensor engine") {
  ProgramBuilder b("trn2");
  const auto x = b.sbuf("x", Dtype::kFloat8E5m2, {2, 2});
  const auto y = b.psum("y", Dtype::kBfloat16, {2, 2});
  call(b, "nc_transpose", b.all(y), "data", b.all(x));
  b.set_words<std::uint8_t>(x, {1, 2, 0x80, 0xff});
  b.run();
  CHECK(b.get_words<std::uint16_t>(y) == std::vector<std::uint16_t>{1, 0x80, 2, 0xff});
}

TEST_CASE("nc_transpose puts one 8-bit element per partition into its own dtype") {
  ProgramBuilder b("trn2");
  const auto x = b.sbuf("x", Dtype::kFloat8E5m2, {1, 3});
  const auto y = b.psum("y", Dtype::kFloat8E5m2, {3, 1});
  call(b, "nc_transpose", b.all(y), "data", b.all(x), {}, Engine::kTensor);
  b.set_words<std::uint8_t>(x, {1, 0x80, 0xff});
  b.run();
  CHECK(b.get_words<std::uint8_t>(y) == std::vector<std::uint8_t>{1, 0x80, 0xff});
}

TEST_CASE("nc_transpose refuses what the documents forbid") {
  ProgramBuilder b("trn2");
  const auto x = b.sbuf("x", Dtype::kBfloat16, {64, 64});
  const auto big = b.sbuf("big", Dtype::kBfloat16, {64, 129});
  const auto y = b.sbuf("y", Dtype::kBfloat16, {64, 64});
  const auto p = b.psum("p", Dtype::kBfloat16, {64, 64});
  const auto f = b.psum("f", Dtype::kFloat32, {64, 64});
  const auto small = b.psum("small", Dtype::kBfloat16, {32, 64});
  const auto refuse = [&](std::uint32_t dst, std::uint32_t src, Engine e = Engine::kAny) {
    return PB::error_of([&] { call(b, "nc_transpose", b.all(dst), "data", b.all(src), {}, e); });
  };
  CHECK(refuse(p, x).empty());
  CHECK_THAT(refuse(p, x, Engine::kVector), Contains("at most 32 x 32 on the vector engine"));
  CHECK_THAT(refuse(p, big), Contains("at most 128 x 128 on the tensor engine"));
  CHECK_THAT(refuse(f, x), Contains("the dtype of data, bfloat16"));
  CHECK_THAT(refuse(y, x), Contains("PSUM for the tensor engine"));
  CHECK_THAT(refuse(p, p), Contains("SBUF for the tensor engine"));
  CHECK_THAT(refuse(small, x), Contains("[64 x 64] is required"));
}

TEST_CASE("dma_transpose permutes two, three and four axes") {
  const std::vector<std::vector<std::int64_t>> shapes = {{16, 8}, {4, 3, 5}, {2, 3, 4, 5}};
  for (const auto& shape : shapes) {
    ProgramBuilder b("trn2");
    std::vector<std::int64_t> swapped = shape;
    std::swap(swapped.front(), swapped.back());
    const auto h = b.hbm("h", Dtype::kUint16, shape);
    const auto s = b.sbuf("s", Dtype::kUint16, swapped);
    const Inst& inst = call(b, "dma_transpose", b.all(s), "src", b.all(h));
    CHECK(b.parts(inst).dma.transpose);
    CHECK(b.parts(inst).dma.dge == (shape.size() == 2 ? DgeMode::kHwdge : DgeMode::kNone));
    std::int64_t n = 1, middle = 1;
    for (auto d : shape) n *= d;
    middle = n / shape.front() / shape.back();
    const auto x = iota<std::uint16_t>(static_cast<std::size_t>(n));
    b.set_words(h, x);
    b.run();
    const auto got = b.get_words<std::uint16_t>(s);
    std::size_t at = 0;
    for (std::int64_t z = 0; z < shape.back(); ++z) {
      for (std::int64_t m = 0; m < middle; ++m) {
        for (std::int64_t a = 0; a < shape.front(); ++a, ++at) {
          CHECK(got[at] == (a * middle + m) * shape.back() + z);
        }
      }
    }
  }
}

TEST_CASE("dma_transpose gathers rows down the columns of its index") {
  ProgramBuilder b("trn2");
  const auto h = b.hbm("h", Dtype::kUint16, {300, 4});
  const auto idx = b.sbuf("idx", Dtype::kUint32, {128, 2});
  const auto s = b.sbuf("s", Dtype::kUint16, {4, 256});
  const auto* d = b.program().add_dynamic(
      {.kind = DynamicOffset::Kind::kVector, .index = b.all(idx), .stride = 4, .limit = 300});
  const Inst& inst =
      call(b, "dma_transpose", b.all(s), "src", b.view(h, {{4, 256}, {1, 4}}, 0, -1, -1, d),
           {{"oob_mode", PB::choice(1)}});
  CHECK(inst.engine == Engine::kGpSimd);
  CHECK(b.parts(inst).dma.indirect);
  b.set_words(h, iota<std::uint16_t>(1200));
  std::vector<std::uint32_t> index(256);
  for (std::uint32_t i = 0; i < 256; ++i) index[i] = (i * 37) % 300;
  // Flat positions 128 to 143, a whole group of 16: out of range, skipped.
  for (std::uint32_t i = 0; i < 16; ++i) index[i * 2 + 1] = 300;
  b.set_words(idx, index);
  b.set_words(s, std::vector<std::uint16_t>(1024, 9999));
  b.run();
  const auto got = b.get_words<std::uint16_t>(s);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::uint32_t row = index[(i % 128) * 2 + i / 128];
    for (std::size_t c = 0; c < 4; ++c) {
      CHECK(got[c * 256 + i] == (row == 300 ? 9999 : row * 4 + c));
    }
  }
  index[9 * 2 + 1] = 0;  // flat position 137: the group is valid in part
  b.set_words(idx, index);
  CHECK_THAT(PB::error_of([&] { b.run(); }), Contains("index 128 is skipped and index 137 is not"));
}

TEST_CASE("dma_transpose refuses what the documents forbid") {
  ProgramBuilder b("trn2");
  const auto h = b.hbm("h", Dtype::kUint16, {64, 8});
  const auto wide = b.hbm("wide", Dtype::kFloat32, {16, 8});
  const auto byte = b.hbm("byte", Dtype::kUint8, {16, 8});
  const auto s = b.sbuf("s", Dtype::kUint16, {8, 64});
  const auto t = b.sbuf("t", Dtype::kUint16, {8, 16});
  const auto sw = b.sbuf("sw", Dtype::kFloat32, {8, 16});
  const auto sb = b.sbuf("sb", Dtype::kUint8, {8, 16});
  const auto idx = b.sbuf("idx", Dtype::kUint32, {64, 1});
  const auto bad = b.sbuf("bad", Dtype::kInt32, {64, 1});
  const auto pair = b.sbuf("pair", Dtype::kUint32, {64, 2});
  const auto few = b.sbuf("few", Dtype::kUint32, {8, 1});
  const auto refuse = [&](std::uint32_t dst, const TensorRef* src, std::vector<Named> more = {},
                          Engine e = Engine::kAny) {
    return PB::error_of(
        [&] { call(b, "dma_transpose", b.all(dst), "src", src, std::move(more), e); });
  };
  const auto rows = [&](std::uint32_t index, std::int64_t n = 64) {
    return b.view(h, {{8, n}, {1, 8}}, 0, -1, -1,
                  b.program().add_dynamic(
                      {.kind = DynamicOffset::Kind::kVector, .index = b.all(index), .stride = 8}));
  };
  CHECK(refuse(s, b.all(h)).empty());
  CHECK(refuse(s, b.all(h), {{"dge_mode", PB::choice(3)}}).empty());
  CHECK(refuse(t, b.view(h, {{8, 16}, {1, 8}}), {{"dge_mode", PB::choice(2)}}).empty());
  CHECK_THAT(refuse(s, b.all(h), {{"axes", b.list({0, 1})}}), Contains("(1, 0) for 2 dimensions"));
  CHECK_THAT(refuse(t, b.all(h)), Contains("dst is of shape (8, 16); (8, 64) is required"));
  CHECK_THAT(refuse(s, b.all(wide)), Contains("the dtype of src, float32"));
  CHECK_THAT(refuse(sb, b.all(byte)), Contains("a 2- or 4-byte dtype"));
  CHECK_THAT(refuse(s, b.view(h, {{1, 512}})), Contains("2, 3 or 4 dimensions"));
  CHECK_THAT(refuse(s, b.all(h), {{"dge_mode", PB::choice(2)}}),
             Contains("a first dimension of 16 for hwdge"));
  CHECK_THAT(refuse(sw, b.all(wide), {{"dge_mode", PB::choice(2)}}),
             Contains("a 2-byte dtype for hwdge"));
  CHECK_THAT(refuse(s, b.all(h), {{"dge_mode", PB::choice(1)}}),
             Contains("unknown, hwdge or none without a vector_offset"));
  CHECK_THAT(refuse(s, b.all(h), {{"oob_mode", PB::choice(1)}}), Contains("oob_mode skip"));
  CHECK_THAT(refuse(s, b.all(h), {{"priority", PB::arg(0)}}), Contains("trn3 is the first"));
  CHECK(refuse(s, rows(idx)).empty());
  CHECK_THAT(refuse(s, rows(idx), {{"dge_mode", PB::choice(2)}}),
             Contains("unknown or swdge with a vector_offset"));
  CHECK_THAT(refuse(s, rows(bad)), Contains("index of src is int32; uint32"));
  CHECK_THAT(refuse(s, rows(pair)), Contains("128 partitions where it has more than one column"));
  const auto s8 = b.sbuf("s8", Dtype::kUint16, {8, 8});
  CHECK_THAT(refuse(s8, rows(few, 8)), Contains("a first dimension that is a multiple of 16"));
  ProgramBuilder old("trn1");
  const auto oh = old.hbm("h", Dtype::kUint16, {64, 8});
  const auto os = old.sbuf("s", Dtype::kUint16, {8, 64});
  const auto oi = old.sbuf("i", Dtype::kUint32, {64, 1});
  const auto* od = old.program().add_dynamic(
      {.kind = DynamicOffset::Kind::kVector, .index = old.all(oi), .stride = 8});
  CHECK_THAT(PB::error_of([&] {
               call(old, "dma_transpose", old.all(os), "src",
                    old.view(oh, {{8, 64}, {1, 8}}, 0, -1, -1, od));
             }),
             Contains("trn2 is the first target"));
}
