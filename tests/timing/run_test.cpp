// Tests whole simulations with timing: deadlocks, stopping, and cores that wait for each other.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/timing/timed.hpp"

using namespace nkisim;
using isa::Arg;
using isa::Dtype;
using isa::Engine;
using isa::Space;
using PB = test::ProgramBuilder;

namespace {

// A tensor_copy that waits for and posts semaphores, as if on line `line` of a trace.
void copy(PB& b, std::uint32_t dst, std::uint32_t src, Engine engine, std::uint32_t line,
          isa::Sync sync) {
  const isa::OpSpec& op = *isa::find_op("tensor_copy");
  std::vector<Arg> args(op.params.size());
  args[0] = PB::arg(b.all(dst));
  args[1] = PB::arg(b.all(src));
  isa::Inst inst;
  inst.op = isa::op_id(op);
  inst.engine = engine;
  inst.loc.trace_line = line;
  inst.sync = b.program().add_sync(std::move(sync));
  b.program().append(inst, args);
}

}  // namespace

TEST_CASE("a deadlock names every engine, what it waits for, and where") {
  PB b;
  b.program().set_explicit_semaphores(true);
  const auto x = b.sbuf("x", Dtype::kFloat32, {128, 8}), y = b.sbuf("y", Dtype::kFloat32, {128, 8});
  // Each waits for what the other posts afterwards.
  copy(b, y, x, Engine::kVector, 11,
       {.waits = {{.semaphore = 4, .value = 2}}, .posts = {{.semaphore = 5}}});
  copy(b, y, x, Engine::kScalar, 12,
       {.waits = {{.semaphore = 5, .value = 1}}, .posts = {{.semaphore = 4}}});
  test::Timeline t;
  CHECK_THROWS_WITH(
      test::run(b, t),
      Catch::Contains("rank0.nc0.vector waits for S[4]>=2 (it is 0) at line 11 (tensor_copy)") &&
          Catch::Contains("rank0.nc0.scalar waits for S[5]>=1 (it is 0) at line 12"));
}

TEST_CASE("the progress callback sees instructions and time, and stops a run") {
  PB b;
  const auto x = b.sbuf("x", Dtype::kFloat32, {128, 8}), y = b.sbuf("y", Dtype::kFloat32, {128, 8});
  for (int i = 0; i < 20000; ++i) {
    b.op("tensor_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(x))}}, Engine::kVector);
  }
  const auto config = load_config("trn2");
  std::vector<std::uint64_t> seen;
  models::Fs last = 0;
  models::RunOptions options;
  options.progress = [&](std::uint64_t n, models::Fs time) {
    CHECK(time > last);
    last = time;
    seen.push_back(n);
    return seen.size() < 2;
  };
  const SimResult stopped = simulate(b.program(), config, nullptr, {}, options);
  CHECK(stopped.partial);
  REQUIRE(seen.size() == 2);
  CHECK(stopped.instructions >= seen[1]);
  CHECK(stopped.instructions < 20000);
  const SimResult full = simulate(b.program(), config, nullptr);
  CHECK_FALSE(full.partial);
  CHECK(full.instructions == 20000);
  CHECK(full.end > stopped.end);
}

TEST_CASE("two cores meet at a barrier and exchange tiles as the interpreter says") {
  const auto build = [](PB& b, std::uint32_t(&tiles)[4]) {
    const auto shared = b.hbm("shared", Dtype::kFloat32, {2});
    for (const std::uint8_t core : {std::uint8_t{0}, std::uint8_t{1}}) {
      const std::string tag = std::to_string(core);
      tiles[core] = b.tensor("src" + tag, Space::kSbuf, Dtype::kFloat32, {2, 4}, 0, core);
      tiles[2 + core] = b.tensor("dst" + tag, Space::kSbuf, Dtype::kFloat32, {2, 4}, 0, core);
    }
    // Core 1 has much to do before it comes to the barrier.
    const auto big = b.tensor("big", Space::kSbuf, Dtype::kFloat32, {128, 4096}, 0, 1);
    for (int i = 0; i < 4; ++i) {
      b.op("memset", {{"dst", PB::arg(b.all(big))}, {"value", PB::arg(1.0)}}, Engine::kVector, 1);
    }
    for (const std::uint8_t core : {std::uint8_t{0}, std::uint8_t{1}}) {
      b.op("core_barrier", {{"data", PB::arg(b.all(shared))}, {"cores", b.list({0, 1})}},
           core == 0 ? Engine::kSync : Engine::kVector, core);
      b.op("sendrecv",
           {{"src", PB::arg(b.all(tiles[core]))},
            {"dst", PB::arg(b.all(tiles[2 + core]))},
            {"send_to_rank", PB::arg(1 - core)},
            {"recv_from_rank", PB::arg(1 - core)},
            {"pipe_id", PB::arg(0)}},
           Engine::kAny, core);
    }
    b.set(tiles[0], {1, 2, 3, 4, 5, 6, 7, 8});
    b.set(tiles[1], {9, 10, 11, 12, 13, 14, 15, 16});
  };
  PB timed, plain;
  std::uint32_t a[4] = {}, c[4] = {};
  build(timed, a);
  build(plain, c);
  plain.run();
  test::Timeline t;
  simulate(timed.program(), load_config("trn2"), &timed.memory(), {&t});
  for (int i = 0; i < 4; ++i) CHECK(timed.get(a[i]) == plain.get(c[i]));
  CHECK(timed.get(a[2]) == std::vector<float>{9, 10, 11, 12, 13, 14, 15, 16});
  models::Fs barrier[2] = {0, 0}, busy = 0;
  for (const auto& e : t.parts) {
    if (isa::spec(*e.inst).name == "core_barrier") barrier[e.core] = e.end;
    if (e.core == 1 && isa::spec(*e.inst).name == "memset") busy = std::max(busy, e.start);
  }
  // No core passes before core 1 has come there, which it does after its last memset has begun.
  CHECK(barrier[0] > busy);
  CHECK(barrier[1] > busy);
}

TEST_CASE("nothing that follows a register load starts before the load has ended") {
  PB b;
  const auto count = b.sbuf("count", Dtype::kInt32, {1, 1});
  const auto x = b.sbuf("x", Dtype::kFloat32, {128, 64}),
             y = b.sbuf("y", Dtype::kFloat32, {128, 64}),
             z = b.sbuf("z", Dtype::kFloat32, {128, 64});
  b.set(count, {3});
  b.set(x, std::vector<float>(128 * 64, 1.0F));
  b.op("memset", {{"dst", PB::arg(b.all(y))}, {"value", PB::arg(0.0)}}, Engine::kVector);
  b.op("register_load", {{"dst", PB::reg(0)}, {"src", PB::arg(b.all(count))}}, Engine::kSync);
  // Independent of the register, on an engine that has been idle so far.
  b.op("tensor_copy", {{"dst", PB::arg(b.all(z))}, {"src", PB::arg(b.all(x))}}, Engine::kScalar);
  test::Timeline t;
  simulate(b.program(), load_config("trn2"), &b.memory(), {&t});
  const auto part = [&](std::string_view op) {
    return *std::find_if(t.parts.begin(), t.parts.end(),
                         [&](const models::PartEvent& e) { return isa::spec(*e.inst).name == op; });
  };
  REQUIRE(t.parts.size() == 3);
  const models::PartEvent load = part("register_load"), after = part("tensor_copy");
  REQUIRE(load.sequence == 1);
  CHECK(after.start >= load.end);
  CHECK(after.wait.producer_sequence == load.sequence);
}

TEST_CASE("a DMA moves what is there when it ends") {
  PB b;
  b.program().set_explicit_semaphores(true);
  const auto x = b.sbuf("x", Dtype::kFloat32, {128, 8}),
             one = b.sbuf("one", Dtype::kFloat32, {128, 8});
  const auto y = b.hbm("y", Dtype::kFloat32, {128, 8});
  b.set(x, std::vector<float>(128 * 8, 7.0F));
  b.set(one, std::vector<float>(128 * 8, 1.0F));
  // Nothing orders them: VectorE writes x after the transfer has begun, and before it is over.
  const auto big = b.sbuf("big", Dtype::kFloat32, {128, 960});
  b.op("memset", {{"dst", PB::arg(b.all(big))}, {"value", PB::arg(0.0)}}, Engine::kVector);
  b.op("dma_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(x))}}, Engine::kSync);
  copy(b, x, one, Engine::kVector, 2, {});
  test::Timeline t;
  simulate(b.program(), load_config("trn2"), &b.memory(), {&t});
  REQUIRE(t.transfers.size() == 1);
  const auto written = std::find_if(t.parts.begin(), t.parts.end(), [](const models::PartEvent& e) {
    return isa::spec(*e.inst).name == "tensor_copy";
  });
  REQUIRE(written->end > t.transfers[0].trigger_end);
  REQUIRE(written->end < t.transfers[0].last_packet);
  CHECK(b.get(y) == std::vector<float>(128 * 8, 1.0F));
}
