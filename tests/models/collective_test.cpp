#include "models/collective/collective.hpp"

#include <catch2/catch.hpp>

#include "models/collective/plan.hpp"

using namespace nkisim::models;

namespace {

TopologyConfig torus() {
  return {.cores_per_chip = 8,
          .cores_per_die = 4,
          .cores_per_stack = 2,
          .rows = 4,
          .columns = 4,
          .wiring = Wiring::kTorus,
          .link_bytes_per_ns = 100,
          .instances_per_server = 1,
          .server_link_bytes_per_ns = 50,
          .network_bytes_per_ns = 10,
          .cc_cores_per_core = 2,
          .streams = 4};
}

// Handshake 1 us, a step 2 us, stacks of 700 and links of 100 B/ns, shares of 1.
Config config() {
  Config c;
  c.topology = torus();
  c.hbm.bytes_per_ns = 700;
  c.dma.engines = 16;
  c.dma.bytes_per_ns = 25;
  c.collectives.trigger_delay = from_ns(500);
  c.collectives.handshake = from_ns(1000);
  c.collectives.network_step = from_ns(15'000);
  c.collectives.barrier = from_ns(300);
  c.collectives.pair_bytes_per_ns = 100;
  c.collectives.pair_across_dies_bytes_per_ns = 80;
  c.collectives.across_dies = from_ns(4000);
  c.collectives.algorithms.assign(
      kAlgorithms, {.base = 0, .step = from_ns(2000), .gather_share = 1, .reduce_share = 1});
  c.collectives.select = {{.id = "all", .kinds = ~0U, .algorithm = Algorithm::kRing}};
  return c;
}

CollectiveRequest gather(std::vector<int> ranks, std::int64_t bytes, Fs at = 0) {
  CollectiveRequest r{
      .kind = CollectiveKind::kAllGather, .ranks = std::move(ranks), .bytes = bytes};
  r.triggered.assign(r.ranks.size(), at);
  return r;
}

}  // namespace

TEST_CASE("ranks fill chips in order") {
  const Topology t(torus(), 2, 128);
  CHECK(t.ranks_per_chip() == 4);
  const Place p = t.place(70);  // chip 17, its third rank
  CHECK(p.instance == 1);
  CHECK(p.chip == 17);
  CHECK(p.core == 4);
  CHECK(p.die == 1);
  CHECK(p.stack == 2);
  CHECK(p.server == 1);
  const Topology single(torus(), 1, 8);
  CHECK(single.stack(0) == single.stack(1));  // a core pair shares its stack
  CHECK(single.stack(1) != single.stack(2));
  CHECK_THROWS(Topology(torus(), 3, 8));
}

TEST_CASE("routes take the shorter way round the torus") {
  const Topology t(torus(), 2, 64);
  CHECK(t.route(0, 0).empty());
  CHECK(t.route(0, 1).size() == 1);
  CHECK(t.route(0, 3).size() == 1);   // across the edge
  CHECK(t.route(0, 12).size() == 1);  // first and last row are neighbours
  CHECK(t.route(0, 10).size() == 4);  // two columns, two rows
  CHECK(t.links(5).size() == 4);
  // Of the driver's neighbours of chip 5: 4, 6, 1, 9.
  for (const int neighbour : {4, 6, 1, 9}) CHECK(t.route(5, neighbour).size() == 1);
}

TEST_CASE("a ring's chips are neighbours") {
  const Topology t(torus(), 2, 64);
  std::vector<int> all;
  for (int r = 63; r >= 0; --r) all.push_back(r);
  const std::vector<int> ring = t.ring(all);
  REQUIRE(ring.size() == 64);
  for (std::size_t i = 0; i < 64; ++i) {
    const int a = t.place(ring[i]).chip, b = t.place(ring[(i + 1) % 64]).chip;
    CHECK(t.route(a, b).size() <= 1);
  }
  CHECK(t.ring(all, 1).front() == ring.back());
}

TEST_CASE("time counts from the last rank, and each rank's own duration from its start") {
  const Config c = config();
  Collectives world(c, 2, 4);
  CollectiveRequest r = gather({0, 1, 2, 3}, 700'000);
  r.triggered = {0, 0, from_ns(10'000), 0};
  const CollectiveTiming t = world.run(r);
  // Ring of 4: three steps; each stack is crossed by 2 x 3 x 700 000 bytes at 700 B/ns.
  const Fs end = from_ns(10'000 + 500 + 1000 + 3 * 2000 + 6000);
  for (const RankTiming& rank : t.ranks) CHECK(rank.end == end);
  CHECK(t.ranks[0].start == from_ns(500));
  CHECK(t.ranks[0].waited_for == 2);
  CHECK(t.ranks[2].start == from_ns(10'500));
  CHECK(t.ranks[2].waited_for == -1);
  // The phases cover the operation without a gap.
  for (const RankTiming& rank : t.ranks) {
    Fs at = rank.start;
    for (const PhaseTime& p : rank.phases) {
      CHECK(p.start == at);
      at = p.end;
    }
    CHECK(at == rank.end);
  }
  CHECK(t.steps == 3);
}

TEST_CASE("an operation waits for its stream and not for another") {
  const Config c = config();
  Collectives world(c, 2, 4);
  const Fs first = world.run(gather({0, 1, 2, 3}, 8)).ranks[0].end;
  CollectiveRequest same = gather({0, 1, 2, 3}, 8);
  CHECK(world.run(same).ranks[0].start == first);
  CollectiveRequest other = gather({0, 1, 2, 3}, 8);
  other.stream = 1;
  CHECK(world.run(other).ranks[0].start == from_ns(500));
}

TEST_CASE("streams share the servers") {
  const Config c = config();
  Collectives world(c, 2, 4);
  const CollectiveTiming alone = world.alone(gather({0, 1, 2, 3}, 7'000'000));
  CHECK(alone.ranks[0].end == from_ns(500 + 1000 + 6000 + 60'000));
  CHECK(world.run(gather({0, 1, 2, 3}, 7'000'000)).ranks[0].end == alone.ranks[0].end);
  CollectiveRequest other = gather({0, 1, 2, 3}, 7'000'000);
  other.stream = 1;
  // The stacks are full until the first has ended: twice the bytes take twice the time.
  CHECK(world.run(other).ranks[0].end == alone.ranks[0].end + from_ns(60'000));
  // Ranks of another chip's stacks are not delayed.
}

TEST_CASE("ranks of a core pair share a stack") {
  const Config c = config();
  const Collectives world(c, 1, 8);
  // A stack serves one rank of the first pair, and two of the second.
  const Fs apart = world.alone(gather({0, 2}, 700'000)).ranks[0].end;
  const Fs together = world.alone(gather({0, 1}, 700'000)).ranks[0].end;
  CHECK(apart == from_ns(500 + 1000 + 2000 + 2000));
  CHECK(together == from_ns(500 + 1000 + 2000 + 4000));
}

TEST_CASE("a permute waits only for the ranks it exchanges with") {
  const Config c = config();
  const Collectives world(c, 2, 4);
  CollectiveRequest r{.kind = CollectiveKind::kPermute, .ranks = {0, 1, 2, 3}, .bytes = 80'000};
  r.pairs = {{0, 1}, {1, 0}, {2, 3}, {3, 2}};
  r.triggered = {0, 0, 0, from_ns(50'000)};
  const CollectiveTiming t = world.alone(r);
  CHECK(t.ranks[0].end == from_ns(500 + 1000 + 2000 + 800));  // 80 000 at 100 B/ns on a die
  CHECK(t.ranks[1].end == t.ranks[0].end);
  CHECK(t.ranks[2].end == t.ranks[0].end + from_ns(50'000));
  CHECK(t.ranks[2].waited_for == 3);
  CHECK(t.ranks[3].waited_for == -1);
  r.pairs = {{0, 2}};
  // To the other die: 4 us more, at 80 B/ns.
  CHECK(world.alone(r).ranks[0].end == from_ns(500 + 1000 + 2000 + 4000 + 1000));
}

TEST_CASE("what was reserved is full, and what comes later has the rest") {
  Servers servers({100, 100});
  const std::vector<ServerLoad> half = {{0, 50'000}};  // at 50 B/ns for 1000 ns
  CHECK(servers.move(0, from_ns(1000), half) == from_ns(1000));
  CHECK(servers.use(0, from_ns(500)) == Approx(0.5));
  CHECK(servers.use(0, from_ns(1000)) == 0);
  // 100 B/ns wanted: half of it until 1000 ns, then all.
  const std::vector<ServerLoad> all = {{0, 100'000}, {1, 10'000}};
  CHECK(servers.move(0, servers.alone(all, 1), all) == from_ns(1500));
  // The other server is used in step with the first.
  CHECK(servers.use(1, from_ns(500)) == Approx(0.05));
  CHECK(servers.use(1, from_ns(1200)) == Approx(0.1));
}

TEST_CASE("requests that cannot be are refused") {
  const Config c = config();
  const Collectives world(c, 2, 4);
  CHECK_THROWS(world.alone(gather({0, 1, 2, 4}, 8)));
  CHECK_THROWS(world.alone(gather({}, 8)));
  CollectiveRequest r = gather({0, 1}, 8);
  r.triggered.pop_back();
  CHECK_THROWS(world.alone(r));
}
