// Tests the simulated DMA throughput against the figures that AWS publishes.
#include <catch2/catch.hpp>

#include "tests/timing/timed.hpp"

using namespace nkisim;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;

namespace {

constexpr int kStatic = 3;  // dge_mode none: descriptors in a ring

// Bytes per ns of a stream of loads of [128, bytes_per_partition], start-up excluded.
double rate(const std::string& target, std::int64_t bytes_per_partition, int queues,
            const std::vector<std::string>& overrides = {}) {
  const auto end = [&](int count) {
    PB b(target);
    const auto x = b.hbm("x", Dtype::kUint8, {128, bytes_per_partition});
    const auto y = b.sbuf("y0", Dtype::kUint8, {128, bytes_per_partition});
    const auto z = b.sbuf("y1", Dtype::kUint8, {128, bytes_per_partition});
    const Engine engines[] = {Engine::kSync, Engine::kScalar};
    for (int i = 0; i < count * queues; ++i) {
      const auto dst = i % 2 == 0 ? y : z;
      b.op("dma_copy",
           {{"dst", PB::arg(b.all(dst))},
            {"src", PB::arg(b.all(x))},
            {"dge_mode", PB::choice(kStatic)}},
           engines[i % queues]);
    }
    test::Timeline t;
    std::vector<std::string> all = overrides;
    all.emplace_back("compiler.infer_dependences=false");  // as independent buffers would be
    return models::to_ns(test::run(b, t, all).end);
  };
  constexpr int kShort = 10, kLong = 60;
  const auto bytes = static_cast<double>(128 * bytes_per_partition * (kLong - kShort) * queues);
  return bytes / (end(kLong) - end(kShort));
}

}  // namespace

// aws-neuron-sdk nki/deep-dives/nki-dma-bandwidth-guide.rst: achievable rates per core
TEST_CASE("aggregate DMA rates of the generations") {
  CHECK(rate("trn1", 32768, 1) == Approx(272).epsilon(0.05));
  CHECK(rate("trn2", 32768, 1) == Approx(368).epsilon(0.05));
  CHECK(rate("trn3", 32768, 1) == Approx(528).epsilon(0.05));
}

// aws-neuron-sdk nki/get-started/about/nki-dma-overview.rst, fig. 1: relative to 32 KiB per
// partition, read off the plot (clients/validation/table/curve.py).
TEST_CASE("DMA throughput against payload size") {
  const std::pair<std::int64_t, double> curve[] = {
      {32, 1.27},   {64, 2.53},   {128, 5.11},  {256, 10.3},  {512, 20.7},
      {1024, 42.4}, {2048, 81.4}, {4096, 96.7}, {8192, 98.3}, {16384, 99.1}};
  const double full = rate("trn2", 32768, 1);
  for (const auto& [bytes, percent] : curve) {
    INFO(bytes << " bytes per partition");
    CHECK(100 * rate("trn2", bytes, 1) / full == Approx(percent).epsilon(0.05));
  }
}

namespace {

// Bytes per ns of a stream of copies within HBM, start-up excluded.
double rate_within_hbm(const std::string& target) {
  const auto end = [&](int count) {
    PB b(target);
    const auto x = b.hbm("x", Dtype::kUint8, {128, 32768});
    for (int i = 0; i < count; ++i) {
      const auto y = b.hbm("y" + std::to_string(i), Dtype::kUint8, {128, 32768});
      b.op("dma_copy", {{"dst", PB::arg(b.all(y))}, {"src", PB::arg(b.all(x))}}, Engine::kSync);
    }
    test::Timeline t;
    return models::to_ns(test::run(b, t, {}).end);
  };
  constexpr int kShort = 4, kLong = 12;
  return 128.0 * 32768 * (kLong - kShort) / (end(kLong) - end(kShort));
}

}  // namespace

// Every byte is read and written, and both are of the stack: half of what it gives at most, which
// is less than the engines move where they load.
TEST_CASE("copies within HBM move half of what the stack gives") {
  for (const auto& [target, stack] : {std::pair("trn1", 410.0), std::pair("trn2", 716.0)}) {
    INFO(target);
    const double rate = rate_within_hbm(target);
    CHECK(rate <= stack / 2);
    CHECK(rate > 0.9 * stack / 2);  // between two transfers the stack is idle for a moment
  }
  CHECK(rate_within_hbm("trn3") == Approx(528).epsilon(0.05));  // the engines' own rate
}

TEST_CASE("DMA engines and cores share the HBM stack") {
  // 100 B/ns for everybody: that is what arrives, by one queue or two.
  CHECK(rate("trn2", 8192, 1, {"hbm.bytes_per_ns=100"}) == Approx(100).epsilon(0.02));
  CHECK(rate("trn2", 8192, 2, {"hbm.bytes_per_ns=100"}) == Approx(100).epsilon(0.02));
  // A stack that can serve all engines changes nothing.
  CHECK(rate("trn2", 8192, 1, {"hbm.bytes_per_ns=5000"}) == rate("trn2", 8192, 1));
}
