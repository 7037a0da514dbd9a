// Tests the simulated times of messages between the two cores of a logical core against a device
// profile (nki-moe-megakernel round_megakernel_perf.md, a decode kernel).
#include <array>
#include <catch2/catch.hpp>

#include "tests/timing/timed.hpp"

using namespace nkisim;
using isa::Dtype;
using isa::Engine;
using isa::Space;
using nkisim::test::ProgramBuilder;
using PB = ProgramBuilder;

namespace {

double us(models::Fs time) { return models::to_ns(time) / 1000; }

bool is(const models::PartEvent& e, std::string_view op) { return isa::spec(*e.inst).name == op; }

}  // namespace

TEST_CASE("a core barrier takes what 978 of them took in the mean") {
  PB b;
  const auto shared = b.hbm("shared", Dtype::kFloat32, {2});
  for (int i = 0; i < 10; ++i) {
    for (const std::uint8_t core : {std::uint8_t{0}, std::uint8_t{1}}) {
      b.op("core_barrier", {{"data", PB::arg(b.all(shared))}, {"cores", b.list({0, 1})}},
           Engine::kGpSimd, core);
    }
  }
  test::Timeline t;
  test::run(b, t);
  REQUIRE(t.parts.size() == 20);
  for (const auto& e : t.parts) CHECK(us(e.end - e.start) == Approx(0.598).epsilon(0.15));
}

TEST_CASE("partial sums are exchanged and added in the time of the chip") {
  PB b;
  for (const std::uint8_t core : {std::uint8_t{0}, std::uint8_t{1}}) {
    const std::string tag = std::to_string(core);
    // 3072 columns of a projection, 24 per partition: the kernel's shape (its layout is assumed).
    const auto mine = b.tensor("mine" + tag, Space::kSbuf, Dtype::kFloat32, {128, 24}, 0, core);
    const auto theirs = b.tensor("theirs" + tag, Space::kSbuf, Dtype::kFloat32, {128, 24}, 0, core);
    b.op("memset", {{"dst", PB::arg(b.all(mine))}, {"value", PB::arg(1.0)}}, Engine::kVector, core);
    b.op("sendrecv",
         {{"src", PB::arg(b.all(mine))},
          {"dst", PB::arg(b.all(theirs))},
          {"send_to_rank", PB::arg(1 - core)},
          {"recv_from_rank", PB::arg(1 - core)},
          {"pipe_id", PB::arg(0)}},
         Engine::kAny, core);
    b.op("tensor_tensor",
         {{"dst", PB::arg(b.all(mine))},
          {"data1", PB::arg(b.all(mine))},
          {"data2", PB::arg(b.all(theirs))},
          {"op", PB::arg(isa::AluOp::kAdd)}},
         Engine::kVector, core);
  }
  test::Timeline t;
  test::run(b, t);
  models::Fs from = models::kNever, to = 0;
  for (const auto& e : t.parts) {
    if (is(e, "sendrecv")) from = std::min(from, e.start);
    if (is(e, "tensor_tensor")) to = std::max(to, e.end);
  }
  CHECK(us(to - from) == Approx(2.846).epsilon(0.15));
}

TEST_CASE("the cores of a pair share their HBM stack") {
  // Each core stores more than half of what the stack takes.
  const auto end = [](int cores) {
    PB b;
    for (int core = 0; core < cores; ++core) {
      const std::string tag = std::to_string(core);
      const auto tile = b.tensor("tile" + tag, Space::kSbuf, Dtype::kFloat32, {128, 4096}, 0,
                                 static_cast<std::uint8_t>(core));
      b.op("memset", {{"dst", PB::arg(b.all(tile))}, {"value", PB::arg(1.0)}}, Engine::kVector,
           static_cast<std::uint8_t>(core));
      for (int i = 0; i < 8; ++i) {
        const auto out = b.hbm("out" + tag + "_" + std::to_string(i), Dtype::kFloat32, {128, 4096});
        b.op("dma_copy", {{"dst", PB::arg(b.all(out))}, {"src", PB::arg(b.all(tile))}},
             Engine::kSync, static_cast<std::uint8_t>(core));
      }
    }
    test::Timeline t;
    return test::run(b, t, {"hbm.bytes_per_ns=500"}).end;
  };
  // 2 x 435 B/ns wanted of 500: 1.7 times as long, less what both wait for at the start.
  const double slower = static_cast<double>(end(2)) / static_cast<double>(end(1));
  CHECK(slower > 1.4);
  CHECK(slower < 1.8);
}

TEST_CASE("two cores that only read end together where their stack is the limit") {
  // No core is always the first to take what is free: they are alike, and so are their ends.
  for (const std::int64_t columns : {512, 1024, 4096}) {
    PB b;
    for (int i = 0; i < 6; ++i) {
      for (const std::uint8_t core : {std::uint8_t{0}, std::uint8_t{1}}) {
        const std::string tag = std::to_string(core) + "_" + std::to_string(i);
        const auto in = b.hbm("in" + tag, Dtype::kFloat32, {128, columns});
        const auto tile =
            b.tensor("tile" + tag, Space::kSbuf, Dtype::kFloat32, {128, columns}, 0, core);
        b.op("dma_copy", {{"dst", PB::arg(b.all(tile))}, {"src", PB::arg(b.all(in))}},
             i % 2 == 0 ? Engine::kSync : Engine::kScalar, core);
      }
    }
    test::Timeline t;
    test::run(b, t);
    std::array<models::Fs, 2> end{};
    for (const auto& e : t.parts) {
      if (is(e, "dma_copy")) end.at(e.inst->core) = std::max(end.at(e.inst->core), e.end);
    }
    INFO(columns << " columns: " << us(end[0]) << " and " << us(end[1]) << " us");
    CHECK(us(end[1]) == Approx(us(end[0])).epsilon(0.005));
  }
}
