// Tests the plan of a DMA transfer: its spread over DMA engines and its cut into packets.
#include "models/dma/dma_plan.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <set>

using namespace nkisim;
using namespace nkisim::models;

namespace {

DmaConfig config() {
  DmaConfig c;
  c.bytes_per_ns = 20;
  c.packet_gap = from_ns(5);
  c.packet_overlap = from_ns(3);
  c.semaphore_packet = from_ns(9);
  c.hbm_stall_quantum = from_ns(100);
  c.rows_per_engine = 8;
  c.store_floor = from_ns(28);
  c.load_floor = from_ns(12);
  c.floor_max_bytes = 512;
  c.stagger.assign(16, 0);
  return c;
}

isa::DmaWork work(std::int64_t rows, std::int64_t descriptors, std::int64_t bytes) {
  return {.src = isa::Space::kSbuf,
          .dst = isa::Space::kHbm,
          .bytes = descriptors * bytes,
          .descriptors = descriptors,
          .descriptor_bytes = bytes,
          .rows = rows};
}

}  // namespace

TEST_CASE("128 partitions use every engine, 4 use one") {
  const DmaConfig c = config();
  const auto all = plan_dma(work(128, 128, 2048), nullptr, c.hardware, c);
  REQUIRE(all.size() == 16);
  for (const LanePlan& lane : all) {
    CHECK(lane.packets == 8);
    CHECK(lane.bytes == 8 * 2048);
    REQUIRE(lane.load.runs.size() == 2);  // and the semaphore write
    CHECK(lane.load.runs[0].interval == from_ns(2048 / 20.0 + 5));
    CHECK(lane.load.runs[0].duration == from_ns(2048 / 20.0 + 5 + 3));
    CHECK(lane.load.runs[1].bytes == kSemaphoreBytes);
    CHECK(lane.load.runs[1].interval == from_ns(9 - 3));
  }
  const auto one = plan_dma(work(4, 4, 2048), nullptr, c.hardware, c);
  CHECK(one[0].packets == 4);
  for (std::size_t e = 1; e < one.size(); ++e) {
    CHECK(one[e].packets == 0);
    CHECK(one[e].load.runs.size() == 1);  // all sixteen write their semaphore
  }
}

TEST_CASE("descriptors are shared out evenly, the first engines take the rest") {
  const DmaConfig c = config();
  const auto lanes = plan_dma(work(128, 35, 1024), nullptr, c.hardware, c);
  for (std::size_t e = 0; e < lanes.size(); ++e) CHECK(lanes[e].packets == (e < 3 ? 3 : 2));
}

TEST_CASE("descriptors are merged into packets or cut") {
  const DmaConfig c = config();
  DgeConfig merge, cut;
  merge.packet_bytes = 4096;
  cut.max_packet_bytes = 4096;
  // 8 x 1536 bytes per engine: three packets of 4 KiB
  const auto merged = plan_dma(work(128, 128, 1536), nullptr, merge, c);
  CHECK(merged[0].packets == 3);
  CHECK(merged[0].packet_bytes == 4096);
  // 8 x 10000 bytes: two of 4096 and one of 1808 each
  const auto whole = plan_dma(work(128, 128, 10000), nullptr, cut, c);
  CHECK(whole[0].packets == 24);
  CHECK(whole[0].bytes == 80000);
}

TEST_CASE("small elements take a least time") {
  const DmaConfig c = config();
  isa::DmaWork store = work(128, 128, 256);
  CHECK(plan_dma(store, nullptr, c.hardware, c)[0].load.runs[0].interval ==
        from_ns(256 / 20.0 + 5));
  store.scattered = true;
  CHECK(plan_dma(store, nullptr, c.hardware, c)[0].load.runs[0].interval == from_ns(28));
  isa::DmaWork load = work(128, 128, 64);
  load.src = isa::Space::kHbm;
  load.dst = isa::Space::kSbuf;
  CHECK(plan_dma(load, nullptr, c.hardware, c)[0].load.runs[0].interval == from_ns(12));
}

TEST_CASE("packets given by the trace stay as they are") {
  const DmaConfig c = config();
  isa::DmaPlan plan;
  plan.packets = {{.engine = 2, .bytes = 512},
                  {.engine = 2, .bytes = 512},
                  {.engine = 2, .bytes = 4096},
                  {.engine = 7, .bytes = 100}};
  const auto lanes = plan_dma(work(128, 128, 2048), &plan, c.hardware, c);
  CHECK(lanes[2].packets == 3);
  CHECK(lanes[2].bytes == 5120);
  CHECK(lanes[7].bytes == 100);
  CHECK(lanes[0].packets == 0);
}

TEST_CASE("plans of DMA transfers are cached by what decides them") {
  const DmaConfig c = config();
  DmaPlanner planner(c);
  const auto a = planner.plan(work(128, 128, 2048), nullptr, c.hardware);
  CHECK(a->packets == 128);
  CHECK(planner.plan(work(128, 128, 2048), nullptr, c.hardware) == a);
  CHECK(planner.plan(work(128, 128, 1024), nullptr, c.hardware) != a);
  CHECK(planner.plan(work(64, 128, 2048), nullptr, c.hardware) != a);
  CHECK(planner.plan(work(128, 128, 2048), nullptr, c.software) != a);
  // One row per further member of the work that plan_dma() reads.
  const std::vector<std::function<void(isa::DmaWork&)>> changes = {
      [](isa::DmaWork& w) { w.descriptors = 64; },
      [](isa::DmaWork& w) { w.descriptor_bytes = 256; },
      [](isa::DmaWork& w) { w.rows = 32; },
      [](isa::DmaWork& w) { w.src = isa::Space::kHbm; },
      [](isa::DmaWork& w) { w.dst = isa::Space::kSbuf; },
      [](isa::DmaWork& w) { w.transpose = true; },
      [](isa::DmaWork& w) { w.compute = true; },
      [](isa::DmaWork& w) { w.scattered = true; },
  };
  std::set<const TransferPlan*> plans = {a.get()};
  for (const auto& change : changes) {
    isa::DmaWork other = work(128, 128, 2048);
    change(other);
    plans.insert(planner.plan(other, nullptr, c.hardware).get());
  }
  CHECK(plans.size() == 1 + changes.size());
}

TEST_CASE("rows that an index skips move nothing, and hold up their engines behind what is moved") {
  DmaConfig c = config();
  c.skipped_descriptor = from_ns(95);
  isa::DmaWork half = work(128, 64, 4096);
  half.skipped = 64;
  const auto lanes = plan_dma(half, nullptr, {.max_packet_bytes = 4096}, c);
  CHECK(lanes.front().bytes == 4 * 4096);
  CHECK(lanes.front().load.last_interval == from_ns(9 - 3 + 4 * 95));
  isa::DmaWork none = work(0, 0, 4096);
  none.skipped = 128;
  for (const LanePlan& lane : plan_dma(none, nullptr, {.max_packet_bytes = 4096}, c)) {
    CHECK(lane.packets == 0);
    CHECK(lane.load.last_interval == from_ns(9 - 3 + 8 * 95));
  }
}

TEST_CASE("a scattered store after a dense one of its size is planned for itself") {
  const DmaConfig c = config();
  DmaPlanner planner(c);
  isa::DmaWork store = work(128, 128, 256);
  const auto interval = [&] {
    return planner.plan(store, nullptr, c.hardware)->lanes[0].load.runs[0].interval;
  };
  CHECK(interval() == from_ns(256 / 20.0 + 5));
  store.scattered = true;
  CHECK(interval() == from_ns(28));  // store_floor
  store.scattered = false;
  CHECK(interval() == from_ns(256 / 20.0 + 5));
}

TEST_CASE("a copy within HBM uses every engine, whatever its rows merge to") {
  DmaConfig c = config();
  c.split_bytes = 4096;
  isa::DmaWork copy = work(1, 1, 128 * 8192 * 4);
  copy.src = isa::Space::kHbm;
  for (const LanePlan& lane : plan_dma(copy, nullptr, c.fixed, c))
    CHECK(lane.bytes == 8 * 8192 * 4);
  // One column less: 128 rows, eight on each engine.
  isa::DmaWork rows = work(128, 128, 8191 * 4);
  rows.src = isa::Space::kHbm;
  for (const LanePlan& lane : plan_dma(rows, nullptr, c.fixed, c))
    CHECK(lane.bytes == 8 * 8191 * 4);
  // No engine gets less than 4 KiB: 10,000 bytes are two pieces.
  const auto few = plan_dma(
      [&] {
        isa::DmaWork w = work(1, 1, 10000);
        w.src = isa::Space::kHbm;
        return w;
      }(),
      nullptr, c.fixed, c);
  CHECK(few[0].bytes == 5000);
  CHECK(few[1].bytes == 5000);
  CHECK(few[2].bytes == 0);
  // Between SBUF and HBM partitions decide.
  CHECK(plan_dma(work(1, 1, 1 << 20), nullptr, c.fixed, c)[1].bytes == 0);
}

TEST_CASE("a load of several pieces per partition pays for each") {
  DmaConfig c = config();
  c.piece_gap = from_ns(17);
  c.piece_full_bytes = 384;
  const auto load = [&](std::int64_t rows, std::int64_t pieces, std::int64_t bytes = 768) {
    isa::DmaWork w = work(rows, pieces, bytes);
    w.element_bytes = 4;
    w.src = isa::Space::kHbm;
    w.dst = isa::Space::kSbuf;
    return plan_dma(w, nullptr, c.hardware, c)[0].load.runs[0].interval;
  };
  CHECK(load(128, 128) == from_ns(768 / 20.0 + 5));
  CHECK(load(128, 2048) == from_ns(768 / 20.0 + 5 + 17));
  CHECK(load(128, 2048, 192) == from_ns(192 / 20.0 + 5 + 8.5));  // half the size, half of it
  CHECK(load(128, 2048, 4) == from_ns(12));  // single elements have a floor of their own
  CHECK(plan_dma(work(128, 2048, 768), nullptr, c.hardware, c)[0].load.runs[0].interval ==
        from_ns(768 / 20.0 + 5));  // a store
}

TEST_CASE("pieces that are near each other in HBM pay nothing, be another like them far") {
  DmaConfig c = config();
  c.piece_gap = from_ns(17);
  c.piece_full_bytes = 384;
  c.piece_near_bytes = 4096;
  DmaPlanner planner(c);
  const auto load = [&](std::int64_t step) {
    isa::DmaWork w = work(128, 2048, 768);
    w.element_bytes = 4;
    w.src = isa::Space::kHbm;
    w.dst = isa::Space::kSbuf;
    w.step_bytes = step;
    return planner.plan(w, nullptr, c.hardware)->lanes[0].load.runs[0].interval;
  };
  CHECK(load(4097) == from_ns(768 / 20.0 + 5 + 17));
  CHECK(load(4096) == from_ns(768 / 20.0 + 5));
  CHECK(load(98304) == from_ns(768 / 20.0 + 5 + 17));
}

TEST_CASE("pieces between near and far pay by the logarithm of their distance") {
  DmaConfig c = config();
  c.piece_gap = from_ns(20);
  c.piece_full_bytes = 384;
  c.piece_near_bytes = 1024;
  c.piece_far_bytes = 16384;  // 2^4 times
  DmaPlanner planner(c);
  const auto gap = [&](std::int64_t step) {
    isa::DmaWork w = work(128, 2048, 768);
    w.element_bytes = 4;
    w.src = isa::Space::kHbm;
    w.dst = isa::Space::kSbuf;
    w.step_bytes = step;
    return to_ns(planner.plan(w, nullptr, c.hardware)->lanes[0].load.runs[0].gap);
  };
  CHECK(gap(1024) == 0);
  CHECK(gap(1032) == Approx(20 * std::log2(1032.0 / 1024) / 4));
  CHECK(gap(2048) == Approx(5));
  CHECK(gap(4096) == Approx(10));
  CHECK(gap(16384) == 20);
  CHECK(gap(1 << 20) == 20);
}

// A decode kernel with such loads takes 130 us, one with longer rows 126: each row costs what its
// bytes do.
TEST_CASE("short rows at run-time addresses spread over all engines") {
  const DmaConfig c = config();
  isa::DmaWork w = work(128, 2048, 256);
  w.src = isa::Space::kHbm;
  w.dst = isa::Space::kSbuf;
  w.element_bytes = 2;
  w.dynamic = true;
  const auto lanes = plan_dma(w, nullptr, c.hardware, c);
  CHECK(lanes[0].packets == 128);
  CHECK(lanes[15].packets == 128);
  CHECK(lanes[0].load.runs[0].interval == from_ns(256 / 20.0 + 5));
}
