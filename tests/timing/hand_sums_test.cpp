// Tests the simulated times of small programs on trn2, each against a sum from configs/trn2.json.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/timing/timed.hpp"

using namespace nkisim;
using isa::Dtype;
using isa::Engine;
using isa::Space;
using models::from_cycles;
using models::from_ns;
using models::Fs;
using PB = test::ProgramBuilder;

namespace {

constexpr auto kFp32 = Dtype::kFloat32;
constexpr auto kBf16 = Dtype::kBfloat16;

void copy(PB& b, std::uint32_t dst, std::uint32_t src, Engine engine = Engine::kVector) {
  b.op("tensor_copy", {{"dst", PB::arg(b.all(dst))}, {"src", PB::arg(b.all(src))}}, engine);
}

void load(PB& b, std::uint32_t dst, std::uint32_t src, Engine engine) {
  b.op("dma_copy", {{"dst", PB::arg(b.all(dst))}, {"src", PB::arg(b.all(src))}}, engine);
}

}  // namespace

TEST_CASE("one tensor_copy: start, fixed latency, elements") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 512}), y = b.sbuf("y", kFp32, {128, 512});
  copy(b, y, x);
  test::Timeline t;
  const auto r = test::run(b, t);
  REQUIRE(t.parts.size() == 1);
  // VectorE begins at 40 ns. FP32 from SBUF to SBUF: 2 elements per cycle of 0.96 GHz, so 256
  // cycles; 152 ns around them.
  CHECK(t.parts[0].start == from_ns(40));
  CHECK(t.parts[0].end == from_ns(40 + 152) + from_cycles(256, 0.96));
  CHECK(r.end == t.parts[0].end);
}

TEST_CASE("performance modes: 16 bit, PSUM") {
  const auto duration = [](Space from, Dtype dtype) {
    PB b;
    const auto x = b.tensor("x", from, dtype, {128, 480});
    const auto y = b.sbuf("y", dtype, {128, 480});
    copy(b, y, x);
    test::Timeline t;
    test::run(b, t);
    return t.parts.at(0).end - t.parts.at(0).start;
  };
  CHECK(duration(Space::kSbuf, kFp32) == from_ns(152 + 250));  // 2 per cycle: 240 cycles = 250 ns
  CHECK(duration(Space::kSbuf, kBf16) == from_ns(152 + 125));  // 4 per cycle
  CHECK(duration(Space::kPsum, kFp32) == from_ns(152 + 500));  // 1 per cycle
  CHECK(duration(Space::kPsum, kBf16) == from_ns(152 + 250));  // 2 per cycle
}

TEST_CASE("two independent instructions of one engine start one interval apart") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 480}), y = b.sbuf("y", kFp32, {128, 480}),
             z = b.sbuf("z", kFp32, {128, 480});
  copy(b, y, x);
  copy(b, z, x);
  test::Timeline t;
  test::run(b, t);
  // 152 + 250 ns long, the next may start 84 ns before the end.
  CHECK(t.parts.at(1).start - t.parts.at(0).start == from_ns(152 + 250 - 84));
}

TEST_CASE("a dependent instruction of one engine waits for the result's semaphore") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 480}), y = b.sbuf("y", kFp32, {128, 480}),
             z = b.sbuf("z", kFp32, {128, 480});
  copy(b, y, x);
  copy(b, z, y);
  test::Timeline t;
  test::run(b, t);
  // update 12 ns after the end, wake-up 23.5 ns later
  CHECK(t.parts.at(1).start == t.parts.at(0).end + from_ns(12 + 23.5));
}

TEST_CASE("an instruction that is to follow another waits for its completion") {
  const auto starts = [](Engine second, bool ordered) {
    PB b;
    const auto x = b.sbuf("x", kFp32, {128, 480}), y = b.sbuf("y", kFp32, {128, 480}),
               z = b.sbuf("z", kFp32, {128, 480});
    copy(b, y, x);
    copy(b, z, x, second);
    if (ordered) b.program().order_after(1, 0);
    test::Timeline t;
    test::run(b, t);
    REQUIRE(t.parts.size() == 2);
    const bool first = t.parts[0].inst->engine == Engine::kVector;
    return t.parts[first ? 1 : 0].start - t.parts[first ? 0 : 1].end;
  };
  // On one engine it would start 84 ns before the end. For a result, the semaphore is updated 12 ns
  // after the end and wakes VectorE 23.5 ns, ScalarE 22 ns later.
  CHECK(starts(Engine::kVector, false) == -from_ns(84));
  CHECK(starts(Engine::kVector, true) == from_ns(12 + 23.5));
  CHECK(starts(Engine::kScalar, false) < 0);
  CHECK(starts(Engine::kScalar, true) == from_ns(12 + 22));
}

TEST_CASE("semaphore latencies between engines") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 4800}), y = b.sbuf("y", kFp32, {128, 4800}),
             z = b.sbuf("z", kFp32, {128, 4800}), w = b.sbuf("w", kFp32, {128, 4800});
  copy(b, y, x, Engine::kVector);
  copy(b, z, y, Engine::kScalar);
  copy(b, w, z, Engine::kGpSimd);
  test::Timeline t;
  test::run(b, t);
  REQUIRE(t.parts.size() == 3);
  CHECK(t.parts[1].start == t.parts[0].end + from_ns(12 + 22));  // VectorE posts, ScalarE wakes
  CHECK(t.parts[2].start == t.parts[1].end + from_ns(10 + 23));  // ScalarE posts, GpSimd wakes
}

TEST_CASE("TensorE wakes 43 ns after a semaphore") {
  PB b;
  const auto x = b.sbuf("x", kBf16, {128, 4800}), s = b.sbuf("s", kBf16, {128, 4800});
  const auto p = b.psum("p", kFp32, {128, 512});
  copy(b, s, x, Engine::kVector);
  b.op("nc_matmul", {{"dst", PB::arg(b.all(p))},
                     {"stationary", PB::arg(b.view(s, {{1, 128}}))},
                     {"moving", PB::arg(b.view(x, {{1, 512}}))}});
  test::Timeline t;
  test::run(b, t);
  REQUIRE(t.parts.size() == 3);
  CHECK(t.parts[1].start == t.parts[0].end + from_ns(12 + 43));
}

TEST_CASE("a short multiply next to a long one is announced behind it") {
  // Two products on tiles of the array that share no cell; the second has an eighth of the columns.
  PB b;
  const auto s = b.sbuf("s", kBf16, {128, 32}), m = b.sbuf("m", kBf16, {128, 512});
  const auto y = b.sbuf("y", kFp32, {32, 512});
  const std::uint32_t p[2] = {b.psum("p0", kFp32, {32, 512}), b.psum("p1", kFp32, {32, 512}, 32)};
  for (const int i : {0, 1}) {
    b.op("nc_matmul", {{"dst", PB::arg(b.view(p[i], {{1, i == 0 ? 512 : 64}}))},
                       {"stationary", PB::arg(b.view(s, {{1, 32}}, 0, 32 * i, 32))},
                       {"moving", PB::arg(b.view(m, {{1, i == 0 ? 512 : 64}}, 0, 32 * i, 32))},
                       {"tile_position", b.list({32 * i, 32 * i})},
                       {"tile_size", b.list({32, 32})}});
  }
  // A semaphore counts: two are done when both are.
  copy(b, y, p[1], Engine::kScalar);
  test::Timeline t;
  test::run(b, t);
  REQUIRE(t.parts.size() == 5);
  REQUIRE(t.parts[3].end < t.parts[1].end);
  CHECK(t.parts[4].start == t.parts[1].end + from_ns(15 + 22));
}

TEST_CASE("two bf16 matmuls: load, multiply, background load") {
  PB b;
  const auto s = b.sbuf("s", kBf16, {128, 128}), m = b.sbuf("m", kBf16, {128, 512});
  const auto p0 = b.psum("p0", kFp32, {128, 512}), p1 = b.psum("p1", kFp32, {128, 512});
  for (const auto p : {p0, p1}) {
    b.op("nc_matmul", {{"dst", PB::arg(b.all(p))},
                       {"stationary", PB::arg(b.all(s))},
                       {"moving", PB::arg(b.all(m))}});
  }
  test::Timeline t;
  test::run(b, t, {"throttle.enabled=false"});
  REQUIRE(t.parts.size() == 4);
  const Fs load = from_cycles(32, 2.4);       // 128 columns, 0.25 cycles each
  const Fs multiply = from_cycles(512, 2.4);  // one cycle per moving column
  const Fs bubble = from_ns(2.6), lead = from_ns(8);
  // TensorE begins at 250 ns. The result of a load is written 76 ns after the last column.
  CHECK(t.parts[0].start == from_ns(250));
  CHECK(t.parts[0].end == from_ns(250) + load + from_ns(76));
  // The multiply issues 2.5 ns after the load and streams once the weights are in place.
  CHECK(t.parts[1].start == from_ns(250 + 2.5));
  const Fs first = from_ns(250) + load + bubble;
  CHECK(t.parts[1].busy_from == first);
  CHECK(t.parts[1].busy_to == first + multiply);
  CHECK(t.parts[1].end == first + multiply + from_ns(157));
  // The second load runs behind the first multiply: from 8 ns before the array takes that up.
  CHECK(t.parts[2].start == first - lead);
  CHECK(t.parts[2].busy_from == first + bubble);
  // The second multiply follows the first: its weights have long been loaded.
  CHECK(t.parts[3].busy_from == first + multiply + bubble);
  CHECK(t.parts[3].busy_to == first + 2 * multiply + bubble);
  CHECK(t.parts[3].start == first + multiply - lead);
}

TEST_CASE("a further wait is an instruction of its own") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 4800}), y = b.sbuf("y", kFp32, {128, 4800});
  const auto z = b.sbuf("z", kFp32, {128, 4800}), w = b.sbuf("w", kFp32, {128, 4800});
  copy(b, y, x, Engine::kVector);
  copy(b, z, x, Engine::kGpSimd);
  b.op("tensor_tensor",
       {{"dst", PB::arg(b.all(w))},
        {"data1", PB::arg(b.all(y))},
        {"data2", PB::arg(b.all(z))},
        {"op", PB::arg(isa::AluOp::kAdd)}},
       Engine::kVector);
  test::Timeline t;
  test::run(b, t);
  REQUIRE(t.parts.size() == 4);
  const bool first = t.parts[0].inst->engine == Engine::kGpSimd;
  const auto &gpsimd = t.parts[first ? 0 : 1], &vector = t.parts[first ? 1 : 0];
  // GpSimd's semaphore comes before VectorE's: the EVENT_SEMAPHORE waits for VectorE's own result,
  // 12 ns after its end, 23.5 ns to wake; it takes 23 ns.
  CHECK(t.parts[2].part_index == -1);
  CHECK(t.parts[2].start == vector.end + from_ns(12 + 23.5));
  CHECK(t.parts[2].end == t.parts[2].start + from_ns(23));
  REQUIRE(gpsimd.end > t.parts[2].end);
  CHECK(t.parts[3].start == gpsimd.end + from_ns(12 + 23.5));
}

TEST_CASE("throttling halves the rate of the first window") {
  PB b;
  const auto s = b.sbuf("s", kBf16, {128, 128}), m = b.sbuf("m", kBf16, {128, 512});
  const auto p = b.psum("p", kFp32, {128, 512});
  b.op("nc_matmul", {{"dst", PB::arg(b.all(p))},
                     {"stationary", PB::arg(b.all(s))},
                     {"moving", PB::arg(b.all(m))}});
  test::Timeline t;
  test::run(b, t);
  CHECK(t.parts.at(1).busy_to - t.parts.at(1).busy_from == 2 * from_cycles(512, 2.4));
  CHECK(t.parts.at(1).throttled == from_cycles(512, 2.4));
}

TEST_CASE("while throttled the next multiply is handed over 47 ns ahead, without a gap") {
  PB b;
  const auto s = b.sbuf("s", kBf16, {128, 128}), m = b.sbuf("m", kBf16, {128, 512});
  const auto p0 = b.psum("p0", kFp32, {128, 512}), p1 = b.psum("p1", kFp32, {128, 512});
  for (const auto p : {p0, p1}) {
    b.op("nc_matmul", {{"dst", PB::arg(b.all(p))},
                       {"stationary", PB::arg(b.all(s))},
                       {"moving", PB::arg(b.all(m))}});
  }
  test::Timeline t;
  test::run(b, t);
  REQUIRE(t.parts.size() == 4);
  // At half rate: 2 * 32 cycles of weights from 250 ns, then 2 * 512 of multiplying.
  const Fs first = from_ns(250) + from_cycles(64, 2.4), second = first + from_cycles(1024, 2.4);
  const auto near = [](Fs found, Fs sum) {
    return std::abs(found - sum) <= 2;
  };  // each sum is rounded to 1 fs
  CHECK(near(t.parts[1].busy_from, first));
  CHECK(near(t.parts[3].start, second - from_ns(47)));
  CHECK(near(t.parts[3].busy_from, second));
}

TEST_CASE("one hardware-descriptor DMA store") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 512});
  const auto y = b.hbm("y", kFp32, {128, 512});
  load(b, y, x, Engine::kSync);
  test::Timeline t;
  test::run(b, t);
  REQUIRE(t.transfers.size() == 1);
  const models::DmaEvent& d = t.transfers[0];
  // SyncE: trigger 562 ns from 0, then 665 ns to the first packet of engine 0.
  CHECK(d.trigger_start == 0);
  CHECK(d.trigger_end == from_ns(562));
  CHECK(d.first_packet == from_ns(562 + 665));
  // Engine 15 starts 165 ns later and moves 8 packets of 2 KiB, each 2048 / 27.2 ns and a gap of
  // 4.7 ns; a packet ends 3 ns after the next could start.
  const Fs packets = 8 * (from_ns(2048 / 27.2) + from_ns(4.7));
  CHECK(d.packets == 128);
  CHECK(d.last_packet == from_ns(562 + 665 + 165) + packets + from_ns(3));
  // Every engine's semaphore write follows its packets and arrives 332 ns later, but at least 12 ns
  // after the one before. Staggers in order: 0 12 13 15 25 34 35 60 62 72 88 96 103 125 137 165,
  // always at or below 12 ns apart on average, so the sixteenth arrives 15 * 12 ns after the first.
  CHECK(d.visible == from_ns(562 + 665) + packets + from_ns(332 + 15 * 12));
}

TEST_CASE("one DMA load pays the HBM's latency and cold start") {
  PB b;
  const auto x = b.hbm("x", kFp32, {128, 512});
  const auto y = b.sbuf("y", kFp32, {128, 512});
  load(b, y, x, Engine::kSync);
  test::Timeline t;
  test::run(b, t, {"dma.hbm_stall_fraction=0"});
  REQUIRE(t.transfers.size() == 1);
  // As the store, but 132 ns of read latency, 2.2 times the stagger (16 KiB per engine), and 300 ns
  // once because the engines were idle.
  const Fs packets = 8 * (from_ns(2048 / 27.2) + from_ns(4.7));
  CHECK(t.transfers[0].first_packet == from_ns(562 + 665 + 132));
  CHECK(t.transfers[0].last_packet ==
        from_ns(562 + 665 + 132 + 2.2 * 165 + 300) + packets + from_ns(3));
}

TEST_CASE("hardware DMA triggers hold their sequencer") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 16});
  for (const char* name : {"a", "b", "c"}) load(b, b.hbm(name, kFp32, {128, 16}), x, Engine::kSync);
  test::Timeline t;
  test::run(b, t);
  // 562 ns each and 48 ns between them
  CHECK(t.parts.at(1).start == from_ns(610));
  CHECK(t.parts.at(2).start == from_ns(1220));
}

TEST_CASE("a hardware DMA trigger ends when its queue has space") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 512});
  for (const char* name : {"a", "b"}) load(b, b.hbm(name, kFp32, {128, 512}), x, Engine::kSync);
  test::Timeline t;
  test::run(b, t, {"dma.hardware.queue_bytes=8200"});
  // The first transfer: 8 packets of 2 KiB and a semaphore write of 4 B per engine. 8200 bytes are
  // left when the fourth has begun, last on engine 15, 562 + 665 + 165 ns after the first trigger.
  const Fs packet = from_ns(2048 / 27.2) + from_ns(4.7);
  REQUIRE(t.transfers.size() == 2);
  CHECK(t.parts.at(1).start == from_ns(610));
  CHECK(t.parts.at(1).end == from_ns(562 + 665 + 165) + 3 * packet);
  CHECK(t.transfers[1].trigger_end == t.parts[1].end);
  CHECK(t.transfers[0].last_packet == from_ns(562 + 665 + 165) + 8 * packet + from_ns(3));
  test::Timeline free;
  test::run(b, free, {"dma.hardware.queue_bytes=0"});
  CHECK(free.parts.at(1).end == from_ns(610 + 562));
}

TEST_CASE("software DMA triggers follow each other by their descriptors") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 16});
  for (const char* name : {"a", "b"}) load(b, b.hbm(name, kFp32, {128, 16}), x, Engine::kGpSimd);
  test::Timeline t;
  test::run(b, t);
  // GpSimd begins at 1290 ns; 482 ns and 0.8 ns for each of 128 descriptors.
  CHECK(t.parts.at(0).start == from_ns(1290));
  CHECK(t.parts.at(1).start == from_ns(1290) + from_ns(482) + 128 * from_ns(0.8));
}

TEST_CASE("a DMA to an address found at run time holds GpSimd") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 512}), y = b.sbuf("y", kFp32, {128, 512}),
             at = b.sbuf("at", Dtype::kInt32, {1, 1});
  const auto h = b.hbm("h", kFp32, {256, 512});
  b.set(at, {0});
  const auto* found = b.program().add_dynamic(
      {.kind = isa::DynamicOffset::Kind::kScalar, .index = b.all(at), .stride = 512});
  const auto* src = b.view(h, {{512, 128}, {1, 512}}, 0, -1, -1, found);
  for (const auto dst : {x, y}) {
    b.op("dma_copy", {{"dst", PB::arg(b.all(dst))}, {"src", PB::arg(src)}});
  }
  test::Timeline t;
  test::run(b, t);
  // It begins at 1290 ns; 40 ns between what holds the sequencer.
  REQUIRE(t.parts.size() == 2);
  CHECK(t.parts[0].inst->engine == Engine::kGpSimd);
  CHECK(t.parts[0].start == from_ns(1290));
  CHECK(t.parts[0].end == from_ns(1290 + 1200));
  CHECK(t.parts[1].start == from_ns(1290 + 1200 + 40));
}

TEST_CASE("a loop costs every sequencer two instructions per iteration") {
  PB b;
  const auto x = b.sbuf("x", kFp32, {128, 480}), y = b.sbuf("y", kFp32, {128, 480});
  b.op("loop_begin", {{"register", PB::reg(0)}, {"start", PB::arg(0)}, {"stop", PB::arg(3)}},
       Engine::kVector);
  copy(b, y, x);
  b.op("loop_end", {}, Engine::kVector);
  test::Timeline t;
  test::run(b, t);
  std::vector<Fs> copies;
  for (const auto& e : t.parts) {
    if (e.kind == models::PartKind::kPipe) copies.push_back(e.start);
  }
  REQUIRE(copies.size() == 3);
  // loop_begin (20 ns) at 40 ns, a gap of 40 ns, then the copy. Its successor loop_end starts 14 ns
  // after it, takes 20 ns, and 40 ns later the next copy could start; it must wait for the data
  // path, which the first holds for 152 + 250 - 84 ns.
  CHECK(copies[0] == from_ns(40 + 20 + 40));
  CHECK(copies[1] == copies[0] + from_ns(152 + 250 - 84));
  CHECK(copies[2] == copies[1] + from_ns(152 + 250 - 84));
}
