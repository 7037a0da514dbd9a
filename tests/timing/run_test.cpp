// Whole runs: deadlocks, stopping, and cores that wait for each other.
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
      Catch::Contains("vector waits for S[4]>=2 (it is 0) at line 11 (tensor_copy)") &&
          Catch::Contains("scalar waits for S[5]>=1 (it is 0) at line 12"));
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
  SimOptions options{.timing_only = true};
  options.progress = [&](std::uint64_t n, models::Fs time) {
    CHECK(time > last);
    last = time;
    seen.push_back(n);
    return seen.size() < 2;
  };
  const SimResult stopped = simulate(b.program(), config, nullptr, options);
  CHECK(stopped.partial);
  REQUIRE(seen.size() == 2);
  CHECK(stopped.instructions >= seen[1]);
  CHECK(stopped.instructions < 20000);
  const SimResult full = simulate(b.program(), config, nullptr, {.timing_only = true});
  CHECK_FALSE(full.partial);
  CHECK(full.instructions == 20000);
  CHECK(full.end > stopped.end);
}
