// Tests the timing of collective operations: places of ranks, routes, algorithms and times.
#include "models/collective/collective.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

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

// The timings of operations started together in one world of LNC 2.
std::vector<CollectiveTiming> all(const Config& c, int ranks,
                                  const std::vector<CollectiveRequest>& requests) {
  Collectives world(c, 2, ranks);
  std::vector<Collectives::Id> ids;
  for (const CollectiveRequest& r : requests) ids.push_back(world.start(r, 0));
  std::vector<Collectives::RankDone> done;
  while (world.next() != kNever) world.advance(world.next(), done);
  std::size_t ranks_done = 0;
  for (const CollectiveRequest& r : requests) ranks_done += r.ranks.size();
  CHECK(done.size() == ranks_done);
  std::vector<CollectiveTiming> list;
  for (const Collectives::Id id : ids) list.push_back(world.take(id));
  return list;
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
  CHECK(t.route(1, 3).front() !=
        t.route(1, 2).front());  // odd places go back where both are as far
  CHECK(t.route(0, 2).front() == t.route(0, 1).front());
  CHECK(t.links(5).size() == 4);
  // The driver's neighbours of chip 5: 4, 6, 1, 9.
  for (const int neighbour : {4, 6, 1, 9}) CHECK(t.route(5, neighbour).size() == 1);
}

TEST_CASE("every route is known, also through chips and instances without ranks") {
  for (const auto& [rows, columns, servers] :
       {std::array{1, 12, 1}, {4, 4, 1}, {4, 4, 4}, {2, 3, 3}, {1, 5, 2}}) {
    TopologyConfig config = torus();
    config.rows = rows;
    config.columns = columns;
    config.instances_per_server = servers;
    for (int chips = 1; chips <= 3 * rows * columns + 1; ++chips) {
      const Topology topology(config, 2, 4 * chips);
      const std::vector<double> rates = topology.rates(700, 400);
      int highest = 0;
      for (int a = 0; a < chips; ++a) {
        for (int b = 0; b < chips; ++b) {
          for (const ServerId s : topology.route(a, b)) highest = std::max(highest, s);
        }
      }
      CAPTURE(rows, columns, servers, chips);
      REQUIRE(highest < topology.servers());
      REQUIRE(static_cast<int>(rates.size()) == topology.servers());
    }
  }
}

TEST_CASE("a large torus has no more entries than ways need") {
  TopologyConfig config = torus();
  config.rows = 1024;
  config.columns = 1024;
  CHECK(Topology(config, 2, 8).servers() == 2 * Topology(config, 2, 4).servers());
  CHECK(Topology(config, 2, 4 * 1025).servers() == 2048 * Topology(config, 2, 4).servers());
}

TEST_CASE("a ring of part of an instance goes through chips without ranks") {
  TopologyConfig config = torus();  // of 8 chips of 12, the way from the last to the first is 5
  config.rows = 1;
  config.columns = 12;
  const Topology topology(config, 2, 32);
  CHECK(topology.route(7, 0).size() == 5);
  CHECK(topology.server_name(topology.route(7, 0).back()) == "chip 11 link right");
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
  const Collectives world(c, 2, 4);
  CollectiveRequest r = gather({0, 1, 2, 3}, 700'000);
  r.triggered = {0, 0, from_ns(10'000), 0};
  const CollectiveTiming t = world.alone(r);
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
  Config c = config();
  CollectiveRequest other = gather({0, 1, 2, 3}, 8);
  other.stream = 1;
  const auto starts = [&] {
    return all(c, 4, {gather({0, 1, 2, 3}, 8), gather({0, 1, 2, 3}, 8), other});
  };
  std::vector<CollectiveTiming> t = starts();
  CHECK(t[1].ranks[0].start == t[0].ranks[0].end);
  CHECK(t[2].ranks[0].start == from_ns(500));
  const RankTiming one = Collectives(c, 2, 4).alone(gather({0, 1, 2, 3}, 8)).ranks[0];
  const Fs length = one.end - one.start;
  CHECK(t[1].ranks[0].end - t[1].ranks[0].start == length);
  // One that was triggered in time has announced its buffers already.
  c.collectives.handshake_overlap = 0.25;
  t = starts();
  CHECK(t[1].ranks[0].end - t[1].ranks[0].start == length - from_ns(250));
  CHECK(t[2].ranks[0].end - t[2].ranks[0].start > length - from_ns(1));  // it shares the stacks
}

TEST_CASE("collectives of several streams and groups share bandwidth fairly") {
  const Config c = config();
  const Collectives world(c, 2, 4);
  const Fs alone = world.alone(gather({0, 1, 2, 3}, 7'000'000)).ranks[0].end;
  CHECK(alone == from_ns(500 + 1000 + 6000 + 60'000));
  CollectiveRequest other = gather({0, 1, 2, 3}, 7'000'000);
  other.stream = 1;
  const auto two = all(c, 4, {gather({0, 1, 2, 3}, 7'000'000), other});
  CHECK(two[0].ranks[0].end == alone + from_ns(60'000));
  CHECK(two[1].ranks[3].end == two[0].ranks[0].end);
  // Half as many bytes: done after 60 us, when the other has as much left, which it then moves
  // alone.
  other.bytes /= 2;
  const auto half = all(c, 4, {gather({0, 1, 2, 3}, 7'000'000), other});
  CHECK(half[1].ranks[0].end == from_ns(7500 + 60'000));
  CHECK(half[0].ranks[0].end == from_ns(7500 + 90'000));
  // Groups of different stacks do not meet.
  const auto apart = all(c, 4, {gather({0, 1}, 7'000'000), gather({2, 3}, 7'000'000)});
  CHECK(apart[0].ranks[0].end == from_ns(500 + 1000 + 2000 + 20'000));
  CHECK(apart[1].ranks[0].end == apart[0].ranks[0].end);
}

TEST_CASE("the algorithm KangaRing serves two ranks at a time") {
  Config c = config();
  c.collectives.select.front().algorithm = Algorithm::kKangaRing;
  // Four ranks: one step. Each stack: 1.5 x 3 chunks gathered, 2 x 3 reduced, 700 000 bytes each.
  CollectiveRequest r = gather({0, 1, 2, 3}, 700'000);
  const Collectives world(c, 2, 4);
  CHECK(world.alone(r).ranks[0].end == from_ns(500 + 1000 + 2000 + 4500));
  r.kind = CollectiveKind::kReduceScatter;
  r.bytes *= 4;
  CHECK(world.alone(r).ranks[0].end == from_ns(500 + 1000 + 2000 + 6000));
}

TEST_CASE("a transfer of a collective reports its bandwidth when it begins") {
  const Config c = config();
  Collectives world(c, 1, 8);
  (void)world.start(gather({0, 1}, 700'000), 0);  // a pair's stack
  std::vector<Collectives::RankDone> done;
  while (world.next() != kNever) world.advance(world.next(), done);
  const std::vector<Collectives::Moving> moving = world.moving();
  REQUIRE(moving.size() == 2);
  for (const Collectives::Moving& m : moving) {
    CHECK(m.start == from_ns(500 + 1000 + 2000));
    CHECK(m.span == from_ns(4000));
    CHECK(m.hbm_bytes == Approx(1'400'000));  // read and written
    CHECK(m.engine_bytes == Approx(700'000));
  }
  CHECK(world.moving().empty());
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
  r.pairs = {{0, 1}, {1, 0}};
  r.triggered = {0, 0, 0, from_ns(50'000)};
  const CollectiveTiming t = world.alone(r);
  CHECK(t.ranks[0].ready == from_ns(500));
  CHECK(t.ranks[0].waited_for == -1);
  CHECK(t.ranks[3].end == from_ns(50'500));  // in no pair
  r.triggered = {0, 0, 0, 0};
  const CollectiveTiming u = world.alone(r);
  CHECK(u.ranks[0].end == from_ns(500 + 1000 + 2000 + 800));  // 80 000 at 100 B/ns on a die
  CHECK(u.ranks[1].end == u.ranks[0].end);
  CHECK(u.ranks[2].end == from_ns(500));
  r.pairs = {{0, 2}};
  // To the other die: 4 us more, at 80 B/ns.
  CHECK(world.alone(r).ranks[0].end == from_ns(500 + 1000 + 2000 + 4000 + 1000));
  r.triggered = {0, 0, from_ns(3000), 0};
  const CollectiveTiming late = world.alone(r);
  CHECK(late.ranks[0].waited_for == 2);
  CHECK(late.ranks[2].waited_for == -1);
  CHECK(late.ranks[0].end == from_ns(3000 + 500 + 1000 + 2000 + 4000 + 1000));
}

TEST_CASE("more urgent transfers get bandwidth first") {
  const Config c = config();
  CollectiveRequest other = gather({0, 1, 2, 3}, 7'000'000);  // 60 us of data, as the first one
  other.stream = 1;
  for (const int priority : {0, 3}) {
    other.priority = priority;
    const auto two = all(c, 4, {gather({0, 1, 2, 3}, 7'000'000), other});
    CHECK(two[0].ranks[0].end == from_ns(7500 + (priority == 0 ? 120'000 : 60'000)));
    CHECK(two[1].ranks[0].end == from_ns(7500 + 120'000));
  }
}

TEST_CASE("of two algorithms the quicker one is taken") {
  Config c = config();
  SelectRule& rule = c.collectives.select.front();
  rule.algorithm = Algorithm::kMesh;
  rule.or_else = Algorithm::kRing;  // of 4 ranks: 3 steps instead of 1, and the same bytes
  c.collectives.algorithms[static_cast<std::size_t>(Algorithm::kMesh)].gather_share = 0.5;
  const Collectives world(c, 2, 4);
  // 3 chunks of n bytes read and written at 700 B/ns, or at half of it: 4 us more in steps are made
  // good from 6 n / 700 = 4000 on.
  CHECK(world.select(gather({0, 1, 2, 3}, 466'000)) == Algorithm::kMesh);
  CHECK(world.select(gather({0, 1, 2, 3}, 467'000)) == Algorithm::kRing);
}

TEST_CASE("no operation is quicker than a smaller one by another algorithm") {
  Config c = config();
  SelectRule later = c.collectives.select.front();
  c.collectives.select.front().max_bytes = 4 * 7'000'000;  // of output
  later.id = "later";
  later.algorithm = Algorithm::kKangaRing;
  later.after = Algorithm::kRing;
  later.above_bytes = 4 * 7'000'000;
  c.collectives.select.push_back(later);
  const Collectives world(c, 2, 4);
  const Fs most = from_ns(500 + 1000 + 6000 + 60'000);
  CHECK(world.alone(gather({0, 1, 2, 3}, 7'000'000)).ranks[0].end == most);
  // KangaRing: one step, and 3/4 of the bytes: 2 us and 45 us of 7 MB, 60 us of 28/3 MB.
  CHECK(world.alone(gather({0, 1, 2, 3}, 7'000'001)).ranks[0].end == most);
  CHECK(world.alone(gather({0, 1, 2, 3}, 9'800'000)).ranks[0].end == most);
  CHECK(world.alone(gather({0, 1, 2, 3}, 14'000'000)).ranks[0].end ==
        from_ns(500 + 1000 + 2000 + 90'000));
}

TEST_CASE("ranks of part of a torus double over all links that they have among them") {
  Config c = config();
  c.collectives.select.front().algorithm = Algorithm::kRdh;
  const auto most_of_links = [&](const std::vector<int>& chips) {
    std::vector<int> group;
    for (const int chip : chips) {
      for (int r = 0; r < 4; ++r) group.push_back(4 * chip + r);
    }
    const Collectives world(c, 2, 64);
    double most = 0;
    for (const ServerLoad& l : world.alone(gather(group, 1)).loads) {
      if (world.topology().server_name(l.server).find("link") == std::string::npos) continue;
      most = std::max(most, l.bytes);
    }
    return most;
  };
  // Each chip gets the chunks of all others.
  CHECK(most_of_links({0, 1}) == Approx(4));                           // one link
  CHECK(most_of_links({0, 1, 2, 3}) == Approx(12.0 / 2));              // a ring of four
  CHECK(most_of_links({0, 1, 2, 3, 4, 5, 6, 7}) == Approx(28.0 / 3));  // two rings, joined
  std::vector<int> all(16);
  std::iota(all.begin(), all.end(), 0);
  CHECK(most_of_links(all) == Approx(63.0 / 4));
  // No rectangle: 1 to 2 carries what 0 sends to 2 and 1 to 6, 8 chunks each.
  CHECK(most_of_links({0, 1, 2, 6}) == Approx(16));
}

TEST_CASE("two levels lie between the instances of several servers") {
  Config c = config();
  c.topology.instances_per_server = 2;
  SelectRule between = c.collectives.select.front();
  between.id = "between";
  between.min_instances = 2;
  between.algorithm = Algorithm::kHierarchical;
  c.collectives.select.insert(c.collectives.select.begin(), between);
  std::vector<int> group;
  for (int r = 0; r < 256; r += 64) group.push_back(r);  // a rank of each of four instances
  const Collectives world(c, 2, 256);
  const CollectiveTiming t = world.alone(gather(group, 1'000'000));
  REQUIRE(t.parts.size() == 3);
  // Between the servers a step of 15 us and 1 MB at 10 B/ns, then between the instances of each a
  // step of 2 us and 2 MB at 50; within an instance the rank is alone.
  CHECK(t.parts[0].latency == from_ns(15'000));
  CHECK(t.parts[0].data == from_ns(100'000));
  CHECK(t.parts[1].latency == from_ns(2000));
  CHECK(t.parts[1].data == from_ns(40'000));
  CHECK(t.ranks[0].end == from_ns(500 + 1000 + 15'000 + 100'000 + 2000 + 40'000));
}

TEST_CASE("bandwidth of several parts on one link adds up") {
  std::vector<ServerLoad> sum;
  merge(sum, {{0, 10.0}, {3, 5.0}});
  merge(sum, {{3, 7.0}, {4, 1.0}});
  merge(sum, {{3, 0.5}});
  REQUIRE(sum.size() == 3);
  CHECK(sum[0].bytes == 10.0);
  CHECK(sum[1].server == 3);
  CHECK(sum[1].bytes == 12.5);
  CHECK(sum[2].bytes == 1.0);
}

TEST_CASE("transfers that want the same server slow down alike") {
  Flows flows({100, 100});
  const std::vector<ServerLoad> half = {{0, 50'000}};  // at 50 B/ns for 1000 ns
  const std::vector<ServerLoad> all = {{0, 100'000}, {1, 10'000}};
  const Fs least = flows.alone(all, 1);
  CHECK(least == from_ns(1000));
  CHECK(flows.alone(all, 0.5) == from_ns(2000));
  flows.start(0, 1, from_ns(1000), half);
  flows.start(0, 2, least, all);
  // 150 B/ns wanted of 100: both at two thirds. Then the second goes on alone.
  CHECK(flows.next() == from_ns(1500));
  std::vector<Flows::Ended> ended;
  flows.advance(from_ns(2000), ended);
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].time == from_ns(1500));
  CHECK(ended[1].time == from_ns(1500));
  // One that is held up elsewhere leaves its share: a third of server 1 for the first, the rest for
  // the last.
  flows.start(from_ns(2000), 3, from_ns(1000), {{0, 100'000}, {1, 100'000}});
  flows.start(from_ns(2000), 4, from_ns(1000), {{0, 100'000}});
  flows.start(from_ns(2000), 5, from_ns(1000), {{0, 100'000}});
  flows.start(from_ns(2000), 6, from_ns(1000), {{1, 60'000}});
  ended.clear();
  flows.advance(kNever - 1, ended);
  REQUIRE(ended.size() == 4);
  CHECK(ended[0].id == 6);
  CHECK(ended[0].time == from_ns(3000));  // 60 of the 66.7 B/ns left
  CHECK(ended[1].time == from_ns(5000));
  CHECK(ended[3].time == from_ns(5000));
}

namespace {

// (time, operation or rank, position or bytes) of all that is seen of a world until `end`.
using Seen = std::vector<std::tuple<Fs, int, double>>;

void watch(Collectives& world, Fs end, Seen& seen) {
  for (Fs at = world.next(); at <= end && at != kNever; at = world.next()) {
    std::vector<Collectives::RankDone> done;
    world.advance(at, done);
    for (const auto& m : world.moving()) seen.emplace_back(m.start, m.rank, m.hbm_bytes);
    for (const auto& d : done) {
      seen.emplace_back(d.end, d.id, d.position);
      CHECK(world.part(d.id, d.position).timing.end == d.end);
    }
  }
}

}  // namespace

TEST_CASE("a collective affects other ranks no earlier than the lookahead") {
  std::mt19937 rng(1);
  const auto draw = [&](int count) {
    return static_cast<int>(rng() % static_cast<unsigned>(count));
  };
  for (int run = 0; run < 200; ++run) {
    Config c = config();
    c.collectives.handshake_overlap = draw(3) / 2.0;
    auto world = std::make_unique<Collectives>(c, 2, 16);
    Collectives straight(c, 2, 16);
    Seen copied, whole;
    Fs now = 0;
    for (int i = 0; i < 12; ++i) {
      now += from_ns(draw(6000));
      std::vector<int> ranks;
      for (int r = draw(4); r < 16; r += 1 + draw(6)) ranks.push_back(r);
      CollectiveRequest request = gather(ranks, 1000 * (1 + draw(500)), now);
      if (draw(2) == 0) {
        request.kind = CollectiveKind::kPermute;
        for (int k = 0; k < static_cast<int>(ranks.size()); ++k) {
          request.pairs.emplace_back(k, (k + 1) % static_cast<int>(ranks.size()));
        }
      } else {  // all but the last may have come before
        for (Fs& at : request.triggered) at = std::max<Fs>(0, at - from_ns(draw(9000)));
        request.triggered[static_cast<std::size_t>(draw(static_cast<int>(ranks.size())))] = now;
      }
      watch(*world, now, copied);
      watch(straight, now, whole);
      const Fs last = now + Collectives::lookahead(c.collectives, request.kind) - 1;
      Collectives without(*world);
      world = std::make_unique<Collectives>(*world);
      (void)world->start(request, now);
      (void)straight.start(request, now);
      Collectives with(*world);
      Seen before, after;
      watch(without, last, before);
      watch(with, last, after);
      CHECK(before == after);
    }
    watch(*world, kNever - 1, copied);
    watch(straight, kNever - 1, whole);
    CHECK(copied == whole);
    CHECK(copied.size() > 24);
  }
}

TEST_CASE("impossible collective requests are refused") {
  const Config c = config();
  const Collectives world(c, 2, 4);
  CHECK_THROWS(world.alone(gather({0, 1, 2, 4}, 8)));
  CHECK_THROWS(world.alone(gather({}, 8)));
  CollectiveRequest r = gather({0, 1}, 8);
  r.triggered.pop_back();
  CHECK_THROWS(world.alone(r));
}
