// Tests the reader of machine descriptions (configs/*.json): parsing, inheritance, changes, errors.
#include "src/config/config_json.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "isa/base/error.hpp"
#include "models/issue/cost.hpp"

using namespace nkisim;

TEST_CASE("every built-in config parses") {
  REQUIRE(config_names() == std::vector<std::string>{"inf2", "trn1", "trn2", "trn3"});
  for (const std::string& n : config_names()) {
    INFO(n);
    const models::Config c = load_config(n);
    CHECK(c.name == n);
    CHECK(!c.rules.empty());
  }
}

TEST_CASE("inheritance changes what it names and nothing else") {
  const models::Config trn2 = load_config("trn2"), trn1 = load_config("trn1");
  CHECK(trn1.engines[0].clock_ghz == 2.8);
  CHECK(trn2.engines[0].clock_ghz == 2.4);
  CHECK(trn1.engines[0].gap == trn2.engines[0].gap);
  CHECK_FALSE(trn1.throttle.enabled);
  CHECK(trn1.throttle.window == trn2.throttle.window);
  // Rules of trn1's own stand before the ones they refine; every inherited rule keeps its place.
  auto next = trn1.rules.begin();
  for (const auto& rule : trn2.rules) {
    next = std::find_if(next, trn1.rules.end(), [&](const auto& r) { return r.id == rule.id; });
    REQUIRE(next != trn1.rules.end());
  }
  CHECK(trn1.rules.size() > trn2.rules.size());
}

TEST_CASE("overrides reach values and rules") {
  CHECK(load_config("trn2", {"dma.bytes_per_ns=23"}).dma.bytes_per_ns == 23);
  const auto c = load_config("trn2", {"rules.matmul.fixed=100", "throttle.enabled=false"});
  CHECK_FALSE(c.throttle.enabled);
  for (const auto& r : c.rules) {
    if (r.id == "matmul") CHECK(r.fixed == 100'000'000);
  }
  CHECK_THROWS_WITH(load_config("trn2", {"dma.nothing=1"}), Catch::Contains("dma.nothing"));
  CHECK_THROWS_WITH(load_config("trn2", {"dma.engines=many"}), Catch::Contains("number"));
}

TEST_CASE("a correction of a config states its measurements, its domain and its default") {
  auto j = load_config_json("trn2");
  auto& gap = j["dma"]["packet_gap"];
  gap["reach"] = {{"points", 2}, {"domain", "packets of 4 KiB"}, {"otherwise", 0}};
  auto few = parse_config(j).dma;
  CHECK((few.packet_gap == 4'700'000 && few.otherwise->packet_gap == 0));
  CHECK(few.otherwise->packet_overlap == few.packet_overlap);
  CHECK(few.otherwise->piece_gap == few.piece_gap);  // of five measurements
  gap["reach"]["points"] = 3;
  CHECK(parse_config(j).dma.otherwise->packet_gap == 4'700'000);
  gap["reach"]["points"] = 2;
  apply_override(j, "dma.packet_gap", "9");
  CHECK(parse_config(j).dma.otherwise->packet_gap == 9'000'000);
  gap["reach"] = {{"points", 2}, {"domain", "packets of 4 KiB"}, {"otherwise", "none"}};
  CHECK_THROWS_WITH(parse_config(j), Catch::Contains("/dma/packet_gap/reach/otherwise") &&
                                         Catch::Contains("a number"));
  gap["reach"]["otherwise"] = 0;
  gap["reach"]["points"] = -1;
  CHECK_THROWS_WITH(parse_config(j), Catch::Contains("/dma/packet_gap/reach/points"));
  gap["reach"].erase("domain");
  gap["reach"]["points"] = 1;
  CHECK_THROWS_WITH(parse_config(j), Catch::Contains("reach/domain") && Catch::Contains("missing"));
}

TEST_CASE("a branch costs what its loop does where a rule says so") {
  const auto cost = [](const std::string& target, std::uint32_t features) {
    const models::Config config = load_config(target);
    const isa::Program program(config.machine);
    const models::CostTable table(config, program);
    return table
        .cost({.opcode = isa::Opcode::kCOMPARE_BRANCH,
               .unit = isa::Unit::kVector,
               .features = features})
        .duration;
  };
  CHECK(cost("trn1", isa::kFeatLoop) == models::from_ns(1710));
  CHECK(cost("trn1", 0) == models::from_ns(20));
  CHECK(cost("trn2", isa::kFeatLoop) == models::from_ns(20));
}

TEST_CASE("unknown and missing keys name their place") {
  auto j = load_config_json("trn2");
  j["dma"]["typo"] = 1;
  CHECK_THROWS_WITH(parse_config(j), Catch::Contains("/dma/typo") && Catch::Contains("known"));
  j = load_config_json("trn2");
  j["array"].erase("lead");
  CHECK_THROWS_WITH(parse_config(j), Catch::Contains("/array/lead") && Catch::Contains("missing"));
  j = load_config_json("trn2");
  j["hbm"]["bytes_per_ns"].erase("source");
  CHECK_THROWS_WITH(parse_config(j), Catch::Contains("/hbm/bytes_per_ns/source"));
  CHECK_THROWS_WITH(load_config("nowhere"), Catch::Contains("trn1, trn2, trn3"));
}
