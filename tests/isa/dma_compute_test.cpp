// Tests DMAs that add their sources, also to scattered and gathered rows.
#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim::isa;
using nkisim::test::Named;
using nkisim::test::ProgramBuilder;
using PB = ProgramBuilder;
using Catch::Contains;

namespace {

const TensorRef* rows(ProgramBuilder& b, std::uint32_t table, std::uint32_t index) {
  return b.view(table, {{2, 2}, {1, 2}}, 0, -1, -1,
                b.program().add_dynamic(
                    {.kind = DynamicOffset::Kind::kVector, .index = b.all(index), .stride = 2}));
}

std::string call(ProgramBuilder& b, const TensorRef* dst, RefList srcs,
                 std::vector<Named> more = {}) {
  const OpSpec& spec = *find_op("dma_compute");
  std::vector<Arg> args(spec.params.size());
  more.insert(more.begin(), {{"dst", PB::arg(dst)},
                             {"srcs", b.refs(std::move(srcs))},
                             {"reduce_op", PB::arg(AluOp::kAdd)}});
  for (const auto& a : more) args[static_cast<std::size_t>(param_index(spec, a.name))] = a.arg;
  Inst inst;
  inst.op = op_id(spec);
  return PB::error_of([&] { b.program().append(inst, args); });
}

}  // namespace

TEST_CASE("dma_compute adds its sources in FP32") {
  ProgramBuilder b("trn2");
  const auto a = b.hbm("a", Dtype::kBfloat16, {2, 2});
  const auto c = b.sbuf("c", Dtype::kInt32, {2, 2});
  const auto d = b.hbm("d", Dtype::kFloat32, {4});
  CHECK(call(b, b.all(d), {b.all(a), b.all(c), b.all(a)}).empty());
  const Expansion e = b.parts(b.program().insts()[0]);
  CHECK(e.dma.compute);
  CHECK(e.dma.dge == DgeMode::kNone);
  CHECK(e.dma.bytes == 8 + 16 + 8);
  CHECK(e.dma.descriptors * e.dma.descriptor_bytes == 32);
  b.set(a, {0.5F, 1, 2, 3});
  b.set(c, {10, 20, 30, 40});
  b.run();
  CHECK(b.get(d) == std::vector<float>{11, 22, 34, 46});
}

// A sum of n tensors reads n tensors; to add to dst is to read it, too, but where the memory adds.
TEST_CASE("dma_compute moves each of its sources") {
  const auto moved = [](const char* target, Space space, Dtype dtype, int count, bool adds) {
    ProgramBuilder b(target);
    const auto d = space == Space::kHbm ? b.hbm("d", dtype, {4, 8}) : b.sbuf("d", dtype, {4, 8});
    RefList srcs;
    for (int n = 0; n < count; ++n) {
      srcs.push_back(b.all(b.hbm("s" + std::to_string(n), dtype, {4, 8})));
    }
    if (adds) srcs.push_back(b.all(d));
    CHECK(call(b, b.all(d), srcs).empty());
    const DmaWork dma = b.parts(b.program().insts()[0]).dma;
    CHECK(dma.bytes == dma.descriptors * dma.descriptor_bytes);
    return dma.bytes / (4 * 8 * size_bytes(dtype));
  };
  for (int n : {1, 2, 3, 16}) {
    for (const char* target : {"trn1", "trn2", "trn3"}) {
      CHECK(moved(target, Space::kHbm, Dtype::kFloat32, n, false) == n);
      CHECK(moved(target, Space::kSbuf, Dtype::kBfloat16, n, false) == n);
    }
  }
  for (const char* target : {"trn1", "trn2"}) {
    CHECK(moved(target, Space::kSbuf, Dtype::kFloat32, 1, true) == 2);
  }
  CHECK(moved("trn3", Space::kSbuf, Dtype::kFloat32, 1, true) == 1);
  CHECK(moved("trn3", Space::kSbuf, Dtype::kBfloat16, 2, true) == 2);
  CHECK(moved("trn3", Space::kSbuf, Dtype::kFloat16, 1, true) == 2);
  CHECK(moved("trn3", Space::kHbm, Dtype::kFloat32, 1, true) == 2);
}

TEST_CASE("dma_compute adds to scattered and gathered rows") {
  for (bool skip : {false, true}) {
    ProgramBuilder b("trn2");
    const auto h = b.hbm("h", Dtype::kFloat32, {4, 2});
    const auto idx = b.sbuf("idx", Dtype::kUint32, {2, 1});
    const auto s = b.sbuf("s", Dtype::kFloat32, {2, 2});
    const auto t = b.sbuf("t", Dtype::kFloat32, {2, 2});
    const std::vector<Named> mode = {{"oob_mode", PB::choice(skip ? 1 : 0)}};
    const auto* picked = rows(b, h, idx);
    CHECK(call(b, picked, {picked, b.all(s)}, mode).empty());
    CHECK(call(b, b.all(t), {b.all(t), picked}, mode).empty());
    CHECK(b.program().insts()[0].engine == Engine::kGpSimd);
    CHECK(b.parts(b.program().insts()[0]).dma.dge == DgeMode::kSwdge);
    b.set(h, {0, 1, 2, 3, 4, 5, 6, 7});
    b.set(idx, {3, skip ? 4.0F : 0.0F});
    b.set(s, {10, 20, 30, 40});
    b.set(t, {1, 1, 1, 1});
    b.run();
    CHECK(b.get(h) == (skip ? std::vector<float>{0, 1, 2, 3, 4, 5, 16, 27}
                            : std::vector<float>{30, 41, 2, 3, 4, 5, 16, 27}));
    CHECK(b.get(t) ==
          (skip ? std::vector<float>{17, 28, 1, 1} : std::vector<float>{17, 28, 31, 42}));
  }
}

TEST_CASE("dma_compute refuses what the documents forbid") {
  ProgramBuilder b("trn2");
  const auto h = b.hbm("h", Dtype::kFloat32, {4, 2});
  const auto idx = b.sbuf("idx", Dtype::kUint32, {2, 1});
  const auto s = b.sbuf("s", Dtype::kFloat32, {2, 2});
  const auto t = b.sbuf("t", Dtype::kFloat32, {2, 2});
  const auto* all = b.all(s);
  const auto* picked = rows(b, h, idx);
  CHECK(call(b, all, RefList(16, all)).empty());
  CHECK_THAT(call(b, all, RefList(17, all)), Contains("1 to 16 sources"));
  CHECK_THAT(call(b, all, {}), Contains("1 to 16 sources"));
  CHECK_THAT(call(b, all, {b.all(h)}), Contains("4 elements, as dst has"));
  CHECK_THAT(call(b, all, {all, all}, {{"scales", b.list({1, 2})}}), Contains("all 1"));
  CHECK_THAT(call(b, all, {all, all}, {{"reduce_op", PB::arg(AluOp::kMaximum)}}),
             Contains("add is required"));
  CHECK_THAT(call(b, picked, {picked, all, all}), Contains("exactly 2 sources"));
  CHECK_THAT(call(b, picked, {all, b.all(t)}), Contains("neither source is dst"));
  CHECK_THAT(call(b, picked, {picked, all}, {{"unique_indices", PB::arg(false)}}),
             Contains("true is required"));
  const auto* moving = b.view(h, {{2, 2}, {1, 2}}, 0, -1, -1,
                              b.program().add_dynamic({.kind = DynamicOffset::Kind::kRegister}));
  CHECK_THAT(call(b, all, {moving}), Contains("known only at run time"));
}

TEST_CASE("sendrecv exchanges tiles between two cores") {
  ProgramBuilder b("trn2");
  std::uint32_t src[2], dst[2];
  for (const std::uint8_t core : {std::uint8_t{0}, std::uint8_t{1}}) {
    const std::string tag = std::to_string(core);
    src[core] = b.tensor("src" + tag, Space::kSbuf, Dtype::kFloat32, {1, 2}, 0, core);
    dst[core] = b.tensor("dst" + tag, Space::kSbuf, Dtype::kFloat32, {1, 2}, 0, core);
  }
  // Core 0 receives into what it sends: both directions happen at once.
  dst[0] = src[0];
  const auto shared = b.hbm("shared", Dtype::kFloat32, {2});
  for (const std::uint8_t core : {std::uint8_t{0}, std::uint8_t{1}}) {
    b.op("core_barrier", {{"data", PB::arg(b.all(shared))}, {"cores", b.list({0, 1})}},
         Engine::kAny, core);
    const Inst& inst = b.op("sendrecv",
                            {{"src", PB::arg(b.all(src[core]))},
                             {"dst", PB::arg(b.all(dst[core]))},
                             {"send_to_rank", PB::arg(1 - core)},
                             {"recv_from_rank", PB::arg(1 - core)},
                             {"pipe_id", PB::arg(0)}},
                            Engine::kAny, core);
    CHECK(b.parts(inst).is_dma);
  }
  b.set(src[0], {1, 2});
  b.set(src[1], {3, 4});
  b.run();
  CHECK(b.get(dst[0]) == std::vector<float>{3, 4});
  CHECK(b.get(dst[1]) == std::vector<float>{1, 2});
}

TEST_CASE("sendrecv and core_barrier on one core, and their errors") {
  ProgramBuilder b("trn2");
  const auto x = b.sbuf("x", Dtype::kFloat32, {1, 512});
  const auto y = b.sbuf("y", Dtype::kFloat32, {1, 512});
  const auto half = b.sbuf("half", Dtype::kBfloat16, {1, 512});
  const auto shared = b.hbm("shared", Dtype::kFloat32, {2});
  const auto send = [&](std::uint32_t d, int to, int dma) {
    return PB::error_of([&] {
      b.op("sendrecv", {{"src", PB::arg(b.all(x))},
                        {"dst", PB::arg(b.all(d))},
                        {"send_to_rank", PB::arg(to)},
                        {"recv_from_rank", PB::arg(0)},
                        {"pipe_id", PB::arg(0)},
                        {"dma_engine", PB::choice(dma)}});
    });
  };
  CHECK(send(y, 1, 0).empty());
  CHECK_THAT(send(y, 2, 0), Contains("send_to_rank is 2; 0 or 1"));
  CHECK_THAT(send(half, 1, 0), Contains("the dtype of src"));
  CHECK_THAT(send(y, 1, 1), Contains("at most 1024 bytes per partition"));
  const auto barrier = [&](IntList cores) {
    return PB::error_of([&] {
      b.op("core_barrier", {{"data", PB::arg(b.all(shared))}, {"cores", b.list(std::move(cores))}});
    });
  };
  CHECK(barrier({0, 1}).empty());
  CHECK_THAT(barrier({0, 2}), Contains("cores is (0, 2); (0, 1) is required"));
  b.set(x, std::vector<float>(512, 7.0F));
  b.run();
  CHECK(b.get(y)[511] == 7.0F);
  ProgramBuilder old("trn1");
  const auto data = old.hbm("d", Dtype::kFloat32, {2});
  CHECK_THAT(
      PB::error_of([&] {
        old.op("core_barrier", {{"data", PB::arg(old.all(data))}, {"cores", old.list({0, 1})}});
      }),
      Contains("trn2 is the first target"));
}
