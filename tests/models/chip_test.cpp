// Tests the model of the chips on which the ranks run: HBM stacks, CC-cores, links between ranks.
#include "models/chip/chip.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/chip/links.hpp"
#include "models/sim_session.hpp"

using namespace nkisim;
using namespace nkisim::models;

namespace {

// Chips of four cores, two on each stack, with a CC-core for each.
Config four_cores() {
  Config c;
  c.topology.cores_per_chip = 4;
  c.topology.cores_per_stack = 2;
  c.topology.cc_cores_per_core = 1;
  c.hbm.bytes_per_ns = 100;
  c.dma.engines = 2;
  c.dma.bytes_per_ns = 20;
  return c;
}

void add_names(const std::vector<sc_core::sc_object*>& objects, std::vector<std::string>& names) {
  for (const sc_core::sc_object* o : objects) {
    if (dynamic_cast<const sc_core::sc_module*>(o) != nullptr) names.emplace_back(o->name());
    add_names(o->get_child_objects(), names);
  }
}

std::vector<std::string> modules() {
  std::vector<std::string> names;
  add_names(sc_core::sc_get_top_level_objects(), names);
  std::erase_if(names, [](const std::string& n) { return n.starts_with("front"); });
  std::sort(names.begin(), names.end());
  return names;
}

isa::World world_of(int ranks) {
  isa::World world;
  world.ranks = ranks;
  return world;
}

}  // namespace

TEST_CASE("a single rank has one chip with one HBM stack") {
  const Config config = four_cores();
  const SimSession session;
  Chips chips(config, world_of(1), 1, std::vector{0}, {});
  CHECK(modules() == std::vector<std::string>{"chip", "chip.hbm0"});
  CHECK(chips.cc_cores(0).empty());
  CHECK_FALSE(chips.stack(0).limits());  // 2 engines of 20 bytes/ns on 100
}

TEST_CASE("ranks have the stacks and CC-cores of their places") {
  const Config config = four_cores();
  const SimSession session;
  const std::vector<int> ranks = {0, 1, 2, 3, 4};
  Chips chips(config, world_of(5), 1, ranks, {});
  CHECK(modules() == std::vector<std::string>{"chip0", "chip0.cc0", "chip0.cc1", "chip0.cc2",
                                              "chip0.cc3", "chip0.hbm0", "chip0.hbm1", "chip1",
                                              "chip1.cc0", "chip1.hbm0"});
  CHECK(&chips.stack(0) == &chips.stack(1));
  CHECK(&chips.stack(1) != &chips.stack(2));
  CHECK(&chips.stack(2) == &chips.stack(3));
  CHECK(&chips.stack(4) != &chips.stack(0));
  CHECK(std::string(chips.cc_core(2, 0).name()) == "chip0.cc2");
  CHECK(std::string(chips.cc_core(4, 3).name()) == "chip1.cc0");  // its only one has all streams
}

// A rank of two cores fills a stack: 4 engines of 30 bytes/ns on 100.
TEST_CASE("the ranks that share an HBM stack decide if it limits") {
  Config config = four_cores();
  const SimSession session;
  config.dma.bytes_per_ns = 30;
  {
    Chips chips(config, world_of(1), 1, std::vector{0}, {});
    CHECK_FALSE(chips.stack(0).limits());  // 60
  }
  {
    Chips chips(config, world_of(3), 1, std::vector{0, 1, 2}, {});
    CHECK(chips.stack(0).limits());        // 120
    CHECK_FALSE(chips.stack(2).limits());  // 60: no fourth rank
  }
  Chips chips(config, world_of(2), 2, std::vector{0, 1}, {});
  CHECK(chips.stack(0).limits());
  CHECK(&chips.stack(0) != &chips.stack(1));
  CHECK(std::string(chips.cc_core(1, 1).name()) == "chip.cc3");
}

// One process may have some of the ranks; the stack is that of all.
TEST_CASE("ranks of other processes count on a stack") {
  Config config = four_cores();
  config.dma.bytes_per_ns = 30;
  const SimSession session;
  Chips chips(config, world_of(4), 1, std::vector{2}, {});
  CHECK(modules() == std::vector<std::string>{"chip", "chip.cc2", "chip.hbm1"});
  CHECK(chips.stack(2).limits());
}

// The last of two ranks triggers a barrier at 200 ns; 500 ns later it is on its CC-core, and the
// barrier takes 300.
TEST_CASE("links through their port take the time of the sum") {
  struct User : sc_core::sc_module {
    explicit User(const sc_core::sc_module_name& name) : sc_module(name) {}
    sc_core::sc_port<link_if> links{"links"};
  };
  Config config = four_cores();
  config.topology.cores_per_die = 4;
  config.topology.rows = config.topology.columns = 1;
  config.topology.instances_per_server = 1;
  config.topology.link_bytes_per_ns = 100;
  config.collectives.trigger_delay = from_ns(500);
  config.collectives.barrier = from_ns(300);
  config.collectives.algorithms.resize(kAlgorithms);
  SimSession session;
  Links links("links", config, 1, 2);
  User user("user");
  user.links.bind(links);
  session.elaborate();
  CHECK(user.links->next() == kNever);
  CHECK(user.links->copy() == nullptr);
  const auto id = user.links->start(
      {.kind = CollectiveKind::kBarrier, .ranks = {0, 1}, .triggered = {0, from_ns(200)}},
      from_ns(200));
  const std::unique_ptr<Collectives> ahead = user.links->copy();
  std::vector<Collectives::RankDone> done, foreseen;
  ahead->advance(from_ns(2000), foreseen);
  user.links->advance(from_ns(999), done);
  CHECK(done.empty());
  CHECK(user.links->next() == from_ns(1000));
  user.links->advance(from_ns(1000), done);
  REQUIRE(done.size() == 2);
  CHECK(done[0].end == from_ns(1000));
  CHECK(done[1].end == from_ns(1000));
  CHECK(foreseen.size() == 2);
  CHECK(user.links->part(id, 0).timing.waited_for == 1);
  CHECK(user.links->take(id).ranks.size() == 2);
}
