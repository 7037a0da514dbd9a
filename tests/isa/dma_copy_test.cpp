// Tests DMAs that copy, cast, gather and scatter.
#include <catch2/catch.hpp>
#include <numeric>

#include "tests/support/program_builder.hpp"

using namespace nkisim::isa;
using nkisim::test::ProgramBuilder;
using PB = ProgramBuilder;
using Catch::Contains;

namespace {

std::vector<float> iota(std::size_t n, float first = 0.0F) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), first);
  return v;
}

const DynamicOffset* gather(ProgramBuilder& b, const TensorRef* index, std::int64_t stride,
                            std::int64_t limit = 0) {
  return b.program().add_dynamic(
      {.kind = DynamicOffset::Kind::kVector, .index = index, .stride = stride, .limit = limit});
}

constexpr int kSkip = 1, kSwdge = 1, kHwdge = 2, kNoDge = 3;

}  // namespace

TEST_CASE("dma_copy moves bytes and casts through FP32") {
  ProgramBuilder b("trn2");
  const auto h = b.hbm("h", Dtype::kFloat32, {4, 6});
  const auto s = b.sbuf("s", Dtype::kFloat32, {6, 4}, 3);
  const auto half = b.sbuf("half", Dtype::kBfloat16, {4, 6});
  const auto bits = b.hbm("bits", Dtype::kInt8, {24});
  // A transposing view of the source: element order is that of the view.
  b.op("dma_copy", {{"dst", PB::arg(b.all(s))}, {"src", PB::arg(b.view(h, {{1, 6}, {6, 4}}))}});
  b.op("dma_copy", {{"dst", PB::arg(b.all(half))}, {"src", PB::arg(b.all(h))}});
  b.op("dma_copy", {{"dst", PB::arg(b.all(bits))}, {"src", PB::arg(b.all(half))}});
  auto x = iota(24);
  x[1] = 300.5F;
  b.set(h, x);
  b.run();
  const auto t = b.get(s);
  for (std::size_t r = 0; r < 6; ++r) {
    for (std::size_t c = 0; c < 4; ++c) CHECK(t[r * 4 + c] == x[c * 6 + r]);
  }
  CHECK(b.get(half)[1] == 300.0F);  // bf16 keeps 8 bits: 300 or 302
  CHECK(b.get(bits)[1] == 127.0F);  // saturates
  CHECK(b.get(bits)[23] == 23.0F);
}

TEST_CASE("dma_copy keeps payloads when dtypes agree") {
  ProgramBuilder b("trn1");
  const auto h = b.hbm("h", Dtype::kBfloat16, {2, 2});
  const auto s = b.sbuf("s", Dtype::kBfloat16, {2, 2});
  b.op("dma_copy", {{"dst", PB::arg(b.all(s))}, {"src", PB::arg(b.all(h))}});
  const std::vector<std::uint16_t> bits = {0x7f81, 0xffff, 0x8000, 0x0001};
  b.set_words(h, bits);
  b.run();
  CHECK(b.get_words<std::uint16_t>(s) == bits);
}

TEST_CASE("dma_copy gathers rows") {
  for (int oob : {0, 1}) {
    ProgramBuilder b("trn2");
    const auto h = b.hbm("h", Dtype::kFloat32, {10, 3});
    const auto idx = b.sbuf("idx", Dtype::kUint32, {4, 1});
    const auto s = b.sbuf("s", Dtype::kFloat32, {4, 3});
    const auto* src = b.view(h, {{3, 4}, {1, 3}}, 0, -1, -1, gather(b, b.all(idx), 3));
    const Inst& inst =
        b.op("dma_copy",
             {{"dst", PB::arg(b.all(s))}, {"src", PB::arg(src)}, {"oob_mode", PB::choice(oob)}});
    CHECK(inst.engine == Engine::kGpSimd);
    CHECK(b.parts(inst).dma.dge == DgeMode::kSwdge);
    CHECK(b.parts(inst).dma.indirect);
    b.set(h, iota(30));
    b.set(idx, {9.0F, 0.0F, static_cast<float>(oob == kSkip ? 10 : 5), 5.0F});
    if (oob == kSkip) b.set(s, std::vector<float>(12, -1.0F));
    b.run();
    const auto got = b.get(s);
    CHECK(got[0] == 27.0F);
    CHECK(got[3] == 0.0F);
    CHECK(got[6] == (oob == kSkip ? -1.0F : 15.0F));  // row 10 does not exist: left alone
    CHECK(got[11] == 17.0F);
  }
}

TEST_CASE("a negative index of a scatter needs oob_mode skip") {
  for (const float negative : {-1.0F, -7.0F}) {
    ProgramBuilder b("trn2");
    const auto h = b.hbm("h", Dtype::kFloat32, {10, 3});
    const auto idx = b.sbuf("idx", Dtype::kInt32, {4, 1});
    const auto s = b.sbuf("s", Dtype::kFloat32, {4, 3});
    const auto* dst = b.view(h, {{3, 4}, {1, 3}}, 0, -1, -1, gather(b, b.all(idx), 3));
    b.op("dma_copy", {{"dst", PB::arg(dst)}, {"src", PB::arg(b.all(s))}});
    b.set(s, iota(12));
    b.set(idx, {9.0F, 0.0F, negative, 1.0F});
    CHECK_THROWS_WITH(
        b.run(), Contains("index 2 of tensor h is " + std::to_string(static_cast<int>(negative))));
  }
}

TEST_CASE("dma_copy scatters rows") {
  for (bool skip : {false, true}) {
    ProgramBuilder b("trn2");
    const auto h = b.hbm("h", Dtype::kFloat32, {10, 3});
    const auto idx = b.sbuf("idx", Dtype::kInt32, {4, 1});
    const auto s = b.sbuf("s", Dtype::kFloat32, {4, 3});
    const auto* dst = b.view(h, {{3, 4}, {1, 3}}, 0, -1, -1, gather(b, b.all(idx), 3, 10));
    b.op("dma_copy", {{"dst", PB::arg(dst)},
                      {"src", PB::arg(b.all(s))},
                      {"oob_mode", PB::choice(skip ? 1 : 0)}});
    b.set(h, std::vector<float>(30, -1.0F));
    b.set(s, iota(12));
    b.set(idx, {9.0F, 0.0F, -1.0F, 0.0F});
    if (!skip) {
      CHECK_THAT(PB::error_of([&] { b.run(); }),
                 Contains("index 2 of tensor h is -1; an index in 0..9 is required"));
      continue;
    }
    b.run();
    const auto got = b.get(h);
    CHECK(got[27] == 0.0F);
    CHECK(got[0] == 9.0F);  // rows 1 and 3 both go to row 0: the later one stays
    CHECK(got[3] == -1.0F);
  }
}

TEST_CASE("dma_copy follows a dynamic start address") {
  for (float row : {2.0F, 9.0F}) {
    ProgramBuilder b("trn2");
    const auto h = b.hbm("h", Dtype::kFloat32, {8, 3});
    const auto at = b.sbuf("at", Dtype::kInt32, {1, 1});
    const auto s = b.sbuf("s", Dtype::kFloat32, {2, 3});
    const auto* d = b.program().add_dynamic(
        {.kind = DynamicOffset::Kind::kScalar, .index = b.all(at), .stride = 3});
    const auto* src = b.view(h, {{3, 2}, {1, 3}}, 0, -1, -1, d);
    const bool skip = row > 8.0F;
    const Inst& inst = b.op("dma_copy", {{"dst", PB::arg(b.all(s))},
                                         {"src", PB::arg(src)},
                                         {"oob_mode", PB::choice(skip ? 1 : 0)}});
    CHECK(b.parts(inst).dma.dge == DgeMode::kSwdge);  // whose address is found at run time
    CHECK(b.parts(inst).parts.size() == 1);
    b.set(h, iota(24));
    b.set(at, {row});
    b.set(s, std::vector<float>(6, -1.0F));
    b.run();
    CHECK(b.get(s) == (skip ? std::vector<float>(6, -1.0F) : iota(6, 6.0F)));
  }
}

TEST_CASE("dma_copy says how far apart the pieces of a row are in HBM") {
  ProgramBuilder b("trn2");
  const auto h = b.hbm("h", Dtype::kFloat32, {4096, 8});
  const auto s = b.sbuf("s", Dtype::kFloat32, {128, 32, 8});
  const auto step = [&](const TensorRef* dst, const TensorRef* src) {
    return b.parts(b.op("dma_copy", {{"dst", PB::arg(dst)}, {"src", PB::arg(src)}})).dma.step_bytes;
  };
  CHECK(step(b.all(s), b.view(h, {{256, 128}, {8, 32}, {1, 8}})) == 0);  // a row is one piece
  CHECK(step(b.all(s), b.view(h, {{8, 128}, {1024, 32}, {1, 8}})) == 4096);
  const auto half = b.sbuf("half", Dtype::kFloat32, {128, 32, 4});
  CHECK(step(b.all(half), b.view(h, {{256, 128}, {8, 32}, {1, 4}})) == 32);
  CHECK(step(b.all(h), b.all(s)) == 0);  // a store
}

TEST_CASE("dma_copy counts the contiguous pieces of both sides") {
  ProgramBuilder b("trn2");
  const auto h = b.hbm("h", Dtype::kFloat32, {128, 512});
  const auto s = b.sbuf("s", Dtype::kFloat32, {128, 512});
  const auto other = b.hbm("other", Dtype::kFloat32, {128, 512});
  const auto half = b.sbuf("half", Dtype::kBfloat16, {128, 512});
  const auto pieces = [&](const TensorRef* dst, const TensorRef* src) {
    return b.parts(b.op("dma_copy", {{"dst", PB::arg(dst)}, {"src", PB::arg(src)}}));
  };
  Expansion e = pieces(b.all(s), b.all(h));
  REQUIRE(e.parts.size() == 1);
  CHECK(name(e.parts[0].opcode) == "DMA_DIRECT2D");
  CHECK(e.parts[0].unit == Unit::kSync);
  CHECK(e.is_dma);
  CHECK(e.dma.bytes == 128 * 512 * 4);
  CHECK(e.dma.descriptors == 128);  // SBUF rows are apart
  CHECK(e.dma.descriptor_bytes == 2048);
  CHECK(e.dma.rows == 128);
  e = pieces(b.all(other), b.all(h));
  CHECK(e.dma.descriptors == 1);
  CHECK(e.dma.descriptor_bytes == 128 * 512 * 4);
  e = pieces(b.all(s), b.view(h, {{1, 128}, {128, 512}}));  // element by element
  CHECK(e.dma.descriptors == 128 * 512);
  CHECK(e.dma.descriptor_bytes == 4);
  e = pieces(b.view(other, {{512, 128}, {1, 128}}, 64), b.view(h, {{512, 128}, {1, 128}}, 32));
  CHECK(e.dma.descriptors == 128);
  CHECK(e.dma.descriptor_bytes == 512);
  e = pieces(b.all(half), b.all(h));
  CHECK(e.dma.dge == DgeMode::kSwdge);
  CHECK(e.dma.compute);
  CHECK(e.dma.bytes == 128 * 512 * 4);
}

TEST_CASE("dma_copy refuses what the documents forbid") {
  ProgramBuilder b("trn2");
  const auto h = b.hbm("h", Dtype::kFloat32, {10, 3});
  const auto s = b.sbuf("s", Dtype::kFloat32, {4, 3}, 5);
  const auto half = b.sbuf("half", Dtype::kBfloat16, {4, 3});
  const auto idx = b.sbuf("idx", Dtype::kUint32, {4, 1});
  const auto few = b.sbuf("few", Dtype::kUint32, {3, 1});
  const auto real = b.sbuf("real", Dtype::kFloat32, {4, 1});
  const auto p = b.psum("p", Dtype::kFloat32, {4, 3});
  const auto mx = b.sbuf("mx", Dtype::kFloat8E5m2X4, {4, 3});
  const auto* four = b.view(h, {{3, 4}, {1, 3}});
  const auto* picked = b.view(h, {{3, 4}, {1, 3}}, 0, -1, -1, gather(b, b.all(idx), 3));
  const auto refuse = [&](const TensorRef* dst, const TensorRef* src,
                          std::vector<nkisim::test::Named> more = {}, Engine e = Engine::kAny) {
    const OpSpec& spec = *find_op("dma_copy");
    std::vector<Arg> args(spec.params.size());
    args[0] = PB::arg(dst);
    args[1] = PB::arg(src);
    for (const auto& m : more) args[static_cast<std::size_t>(param_index(spec, m.name))] = m.arg;
    Inst inst;
    inst.op = op_id(spec);
    inst.engine = e;
    return PB::error_of([&] { b.program().append(inst, args); });
  };
  const auto mode = [](int m) {
    return std::vector<nkisim::test::Named>{{"dge_mode", PB::choice(m)}};
  };
  CHECK(refuse(b.all(s), four).empty());  // any start partition: DMA has no quadrant rule
  CHECK_THAT(refuse(b.all(p), four), Contains("dst is in PSUM; HBM or SBUF is required"));
  CHECK_THAT(refuse(b.all(s), b.all(h)), Contains("30 elements, as src has"));
  CHECK_THAT(refuse(b.all(mx), four), Contains("MX types cannot be cast"));
  CHECK_THAT(refuse(b.all(half), four, mode(kHwdge)), Contains("cannot cast"));
  CHECK_THAT(refuse(b.all(s), picked, mode(kHwdge)), Contains("cannot use a vector_offset"));
  CHECK_THAT(refuse(b.all(s), picked, mode(kNoDge)), Contains("known only at run time"));
  CHECK_THAT(refuse(b.all(s), four, mode(kHwdge), Engine::kGpSimd), Contains("sync or scalar"));
  CHECK_THAT(refuse(b.all(s), four, mode(kSwdge), Engine::kSync), Contains("gpsimd for swdge"));
  CHECK_THAT(refuse(b.all(s), four, {}, Engine::kVector), Contains("sync, scalar, gpsimd"));
  CHECK_THAT(refuse(b.all(s), four, {{"priority", PB::arg(1)}}), Contains("trn3 is the first"));
  CHECK_THAT(refuse(b.all(s), b.view(h, {{3, 4}, {1, 3}}, 0, -1, -1, gather(b, b.all(few), 3))),
             Contains("4, one per row, is required"));
  CHECK_THAT(refuse(b.all(s), b.view(h, {{3, 4}, {1, 3}}, 0, -1, -1, gather(b, b.all(real), 3))),
             Contains("an integer dtype"));
  CHECK_THAT(refuse(b.view(s, {{1, 3}}, 0, -1, -1, gather(b, b.all(idx), 3)), four),
             Contains("a tensor in HBM"));
}

TEST_CASE("dma_copy refuses what its generation lacks") {
  ProgramBuilder old("trn1");
  const auto oh = old.hbm("h", Dtype::kFloat32, {4, 3});
  const auto os = old.sbuf("s", Dtype::kFloat32, {4, 3});
  CHECK_THAT(PB::error_of([&] {
               old.op("dma_copy", {{"dst", PB::arg(old.all(os))},
                                   {"src", PB::arg(old.all(oh))},
                                   {"dge_mode", PB::choice(kHwdge)}});
             }),
             Contains("trn2 is the first target"));
  ProgramBuilder v4("trn3");
  const auto vh = v4.hbm("h", Dtype::kFloat32, {4, 3});
  const auto vs = v4.sbuf("s", Dtype::kFloat32, {4, 3});
  CHECK_THAT(PB::error_of([&] {
               v4.op("dma_copy", {{"dst", PB::arg(v4.all(vs))},
                                  {"src", PB::arg(v4.all(vh))},
                                  {"priority", PB::arg(4)}});
             }),
             Contains("0 to 3"));
}
