// Tests the model of one DMA engine (a lane), which takes packets from several queues, round robin.
// The expected times are computed by hand, or packet by packet by reference().
#include "models/dma/dma_lane.hpp"

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>

#include "models/memory/hbm.hpp"

using namespace nkisim::models;

namespace {

DmaConfig config(std::int64_t turn_bytes = 0) {
  DmaConfig c;
  c.turn_bytes = turn_bytes;
  c.hbm_stall_quantum = 100'000;
  c.cold_idle = 50'000;
  return c;
}

// The part of a transfer that one engine moves. Its load lives as long as the test program.
LaneItem item(QueueIndex queue, Fs ready, std::int64_t packets, Fs interval, void* id, Fs cold = 0,
              double stall = 0, std::int64_t bytes = 512, Fs gap = 0) {
  static std::deque<LaneLoad> loads;
  LaneLoad& load = loads.emplace_back();
  load.cold = cold;
  load.stall = stall;
  if (packets > 0) load.add({packets, bytes, interval, interval + 3, gap});
  load.add({1, kSemaphoreBytes, 6, 9});
  return {queue, ready, &load, id};
}

// Packet by packet: the definition the bulk computation must reproduce.
std::vector<LaneDone> reference(std::vector<LaneItem> items, std::int64_t turn_bytes) {
  struct Left {
    LaneItem item;
    std::vector<PacketRun> runs;
  };
  std::map<QueueIndex, std::vector<Left>> queues;
  for (const auto& i : items) queues[i.queue].push_back({i, i.load->runs});
  std::vector<LaneDone> done;
  std::map<void*, LaneDone> open;
  Fs free = 0;
  QueueIndex last = 0;
  std::int64_t slice = 0;  // bytes of its slice
  bool any = true;
  while (any) {
    Fs ready = kNever;
    for (auto& [q, list] : queues) {
      if (!list.empty()) ready = std::min(ready, list.front().item.ready);
    }
    any = ready != kNever;
    if (!any) break;
    free = std::max(free, ready);
    std::vector<QueueIndex> heads;
    for (auto& [q, list] : queues) {
      if (!list.empty() && list.front().item.ready <= free) heads.push_back(q);
    }
    QueueIndex next = heads.front();
    for (auto q : heads) {
      if (q > last) {
        next = q;
        break;
      }
    }
    for (auto q : heads) {
      const auto& head = queues[q].front();
      if (q == last && slice > 0 && slice + head.runs.front().bytes <= turn_bytes) next = q;
    }
    if (next != last) slice = 0;
    last = next;
    Left& i = queues[next].front();
    void* id = i.item.transfer;
    if (open.count(id) == 0) open[id] = {id, next, free, 0, 0};
    PacketRun& run = i.runs.front();
    slice += run.bytes;
    LaneDone& d = open[id];
    if (i.runs.size() == 1) {
      d.semaphore_start = free;
    } else {
      d.payload_end = free + run.duration - (heads.size() > 1 ? run.gap : 0);
    }
    free += run.interval - (heads.size() > 1 ? run.gap : 0);
    if (--run.count == 0) i.runs.erase(i.runs.begin());
    if (i.runs.empty()) {
      done.push_back(d);
      queues[next].erase(queues[next].begin());
    }
  }
  return done;
}

// Runs a lane as its owner does: push when asked, advance at next().
std::vector<LaneDone> simulate(const std::vector<LaneItem>& items, const std::vector<Fs>& pushed,
                               std::int64_t turn_bytes = 0) {
  const DmaConfig c = config(turn_bytes);
  DmaLane lane(c);
  std::vector<LaneDone> done;
  std::size_t i = 0;
  for (;;) {
    const Fs next = lane.next();
    if (i < items.size() && pushed[i] <= next) {
      lane.advance(pushed[i] - 1, done);
      lane.push(items[i]);
      ++i;
    } else if (next == kNever) {
      return done;
    } else {
      const std::size_t before = done.size();
      lane.advance(next, done);
      for (std::size_t k = before; k < done.size(); ++k) {
        CHECK(done[k].semaphore_start <= next);  // never reported late
      }
    }
  }
}

}  // namespace

TEST_CASE("one queue: packets follow each other, the semaphore write ends them") {
  int id = 0;
  const auto done = simulate({item(5, 1000, 4, 100, &id)}, {0});
  REQUIRE(done.size() == 1);
  CHECK(done[0].start == 1000);
  CHECK(done[0].payload_end == 1000 + 3 * 100 + 103);
  CHECK(done[0].semaphore_start == 1400);
}

TEST_CASE("two queues share an engine packet by packet") {
  int a = 0, b = 0;
  const auto done = simulate({item(5, 0, 10, 100, &a), item(6, 0, 2, 100, &b)}, {0, 0});
  REQUIRE(done.size() == 2);
  CHECK(done[0].transfer == &b);
  CHECK(done[0].semaphore_start == 5 * 100 + (done[0].start == 0 ? -100 : 0));
  CHECK(done[1].semaphore_start == 12 * 100 + 6);
}

// Device profile of fused attention, 512 steps: packets of 512 bytes go seven in a row between two
// of 4 KiB.
TEST_CASE("round robin between queues counts bytes, not packets") {
  int a = 0, b = 0;
  std::vector<PacketTime> packets;
  const DmaConfig c = config(4096);
  DmaLane lane(c);
  lane.record(packets);
  lane.push(item(5, 0, 3, 155, &a, 0, 0, 4096));
  lane.push(item(6, 0, 10, 24, &b, 0, 0, 512));
  std::vector<LaneDone> done;
  lane.advance(100'000, done);
  std::string order;
  for (const PacketTime& p : packets) order += p.transfer == &a ? 'a' : 'b';
  CHECK(order == "abbbbbbbbabba");  // eight of 512 bytes are a slice
}

TEST_CASE("bulk computation equals the packet-by-packet definition") {
  const unsigned seed = GENERATE(range(1U, 60U));
  const std::int64_t turn_bytes = GENERATE(0, 1000, 4096);
  std::mt19937 random(seed);
  INFO("seed " << seed << ", slices of " << turn_bytes);
  std::vector<int> ids(12);
  std::vector<LaneItem> items;
  std::vector<Fs> pushed;
  Fs at = 0;
  for (int& id : ids) {
    at += static_cast<Fs>(random() % 3000);
    const auto queue = static_cast<QueueIndex>(5 + random() % 3);
    items.push_back(item(queue, at + static_cast<Fs>(random() % 500),
                         static_cast<std::int64_t>(random() % 40),
                         static_cast<Fs>(20 + random() % 100), &id, 0, 0,
                         std::int64_t{4} << (random() % 11), static_cast<Fs>(random() % 20)));
    pushed.push_back(at);
  }
  const auto expected = reference(items, turn_bytes);
  const auto found = simulate(items, pushed, turn_bytes);
  REQUIRE(found.size() == expected.size());
  std::map<void*, LaneDone> by_id;
  for (const auto& d : expected) by_id[d.transfer] = d;
  for (const auto& d : found) {
    CHECK(d.semaphore_start == by_id[d.transfer].semaphore_start);
    CHECK(d.payload_end == by_id[d.transfer].payload_end);
    CHECK(d.start == by_id[d.transfer].start);
  }
}

// Ten packets of 30, 17 of them the fetch of a descriptor: 300 alone; with another such queue each
// packet takes 13.
TEST_CASE("a second queue fills the gaps in which a ring fetches descriptors") {
  int a = 0, b = 0;
  const auto one = simulate({item(5, 0, 10, 30, &a, 0, 0, 384, 17)}, {0});
  CHECK(one[0].semaphore_start == 300);
  const auto two = simulate(
      {item(5, 0, 10, 30, &a, 0, 0, 384, 17), item(6, 0, 10, 30, &b, 0, 0, 384, 17)}, {0, 0});
  REQUIRE(two.size() == 2);
  CHECK(two[0].semaphore_start == 20 * 13);      // both have had ten packets
  CHECK(two[1].semaphore_start == 20 * 13 + 6);  // after the semaphore write of the first
}

TEST_CASE("an idle engine pays the cold delay on the first packet") {
  int id = 0;
  const auto done = simulate({item(5, 1'000'000, 4, 100, &id, 5000)}, {0});
  CHECK(done[0].semaphore_start == 1'000'000 + 400 + 5000);
  const DmaConfig c = config();
  std::vector<PacketTime> packets;
  DmaLane lane(c);
  lane.record(packets);
  lane.push(item(5, 1'000'000, 3, 100, &id, 5000));
  std::vector<LaneDone> ended;
  lane.advance(2'000'000, ended);
  REQUIRE(packets.size() == 3);
  CHECK(packets[0].duration == 5103);
  CHECK(packets[1].start == 1'005'100);
  CHECK(packets[1].duration == 103);
  CHECK(packets[2].duration == 103);
}

TEST_CASE("a queue has space when enough of its packets have begun") {
  int a = 0, b = 0;
  const DmaConfig c = config();
  DmaLane lane(c);
  lane.push(item(5, 0, 4, 100, &a));
  lane.push(item(5, 0, 2, 100, &a));
  lane.push(item(6, 1000, 3, 100, &b));
  std::vector<LaneDone> done;
  // 6 packets of 512 bytes and 2 semaphore writes of 4: at 0 to 300, 400, 406, 506, 606.
  CHECK(lane.backlog(5, 6 * 512 + 8) == 0);
  CHECK(lane.backlog(7, 0) == 0);
  CHECK(lane.backlog(5, 3 * 512 + 8) == 200);  // the third has begun
  CHECK(lane.backlog(5, 3 * 512 + 7) == 300);
  CHECK(lane.backlog(5, 512 + 4) == 406);
  CHECK(lane.backlog(6, 2 * 512 + 4) == 1000);  // ready only then
  CHECK(lane.backlog(6, 0) == 1300);
  lane.advance(250, done);  // packets at 0, 100 and 200
  CHECK(lane.backlog(5, 3 * 512 + 8) == 0);
  CHECK(lane.backlog(5, 2 * 512 + 8) == 300);
  lane.advance(450, done);
  CHECK(lane.backlog(5, 512 + 4) == 0);
  CHECK(lane.backlog(5, 0) == 606);
}

TEST_CASE("HBM stalls come in whole quanta and are not lost between transfers") {
  int a = 0, b = 0;
  const double stall = 150'000.0 / (100 * 512);  // 1.5 quanta per transfer
  const auto done =
      simulate({item(5, 0, 100, 100, &a, 0, stall), item(5, 0, 100, 100, &b, 0, stall)}, {0, 0});
  CHECK(done[0].semaphore_start == 100 * 100 + 100'000);
  CHECK(done[1].semaphore_start == 2 * 100 * 100 + 6 + 300'000);
}

TEST_CASE("recorded packets are those of the bulk computation") {
  int a = 0, b = 0;
  const DmaConfig c = config();
  std::vector<PacketTime> packets;
  DmaLane lane(c);
  lane.record(packets);
  lane.push(item(5, 0, 3, 100, &a));
  lane.push(item(6, 150, 2, 40, &b));
  std::vector<LaneDone> done;
  lane.advance(100'000, done);
  // Queue 5 at 0 and 100; queue 6 is ready at 150 and alternates from 200.
  REQUIRE(packets.size() == 5);
  const std::vector<std::pair<Fs, void*>> expected = {
      {0, &a}, {100, &a}, {200, &b}, {240, &a}, {340, &b}};
  for (std::size_t i = 0; i < packets.size(); ++i) {
    CHECK(packets[i].start == expected[i].first);
    CHECK(packets[i].transfer == expected[i].second);
    CHECK(packets[i].duration == (packets[i].transfer == &a ? 103 : 43));
    CHECK(packets[i].bytes == 512);
  }
  REQUIRE(done.size() == 2);
  CHECK(done[0].payload_end == 343);
  CHECK(done[1].payload_end == 383);
}

// The engine's own rate is 2,000 bytes in 10 ns; the stack gives it half of that.
TEST_CASE("queues of an engine have one share of a stack between them") {
  const int queues = GENERATE(1, 2, 3);
  Hbm hbm({.bytes_per_ns = 100}, 200, 1);
  const DmaConfig c = config(2000);
  DmaLane lane(c);
  lane.reach(hbm);
  LaneLoad load;
  load.hbm_passes = 1;
  load.add({600 / queues, 2000, from_ns(10), from_ns(10)});
  load.add({1, kSemaphoreBytes, 6, 9});
  for (int q = 0; q < queues; ++q) {
    (void)lane.push(static_cast<QueueIndex>(q), 0, load, nullptr);
  }
  std::vector<LaneDone> done;
  lane.advance(from_ns(1'000'000), done);
  REQUIRE(done.size() == static_cast<std::size_t>(queues));
  // 600 packets of 2,000 bytes at 100 bytes per ns; a window of 256 ns may be taken in advance.
  CHECK(to_ns(done.back().payload_end) == Approx(12'000).margin(256));
}
