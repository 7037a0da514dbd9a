// Tests the cost table: which row applies to an instruction, and the time that it gives.
#include "models/issue/cost.hpp"

#include <catch2/catch.hpp>

#include "isa/base/error.hpp"

using namespace nkisim;
using namespace nkisim::models;

namespace {

Config config() {
  Config c;
  c.name = "test";
  for (EngineConfig& e : c.engines) e.clock_ghz = 2;
  CostRule fast{.id = "fast", .unit = isa::Unit::kVector, .opcodes = {"COPY"}};
  fast.present = isa::kFeatAll16Bit;
  fast.absent = isa::kFeatSrcPsum;
  fast.fixed = 100;
  fast.cycles_per_element = 0.25;
  CostRule rest{.id = "rest", .unit = isa::Unit::kVector, .opcodes = {"*"}};
  rest.fixed = 100;
  rest.cycles_per_element = 1;
  rest.fixed_cycles = 6;
  rest.min_cycles = 10;
  rest.overlap = 40;
  c.rules = {fast, rest};
  CostExtra pointer{.id = "pointer", .unit = isa::Unit::kVector, .opcodes = {"*"}};
  pointer.present = isa::kFeatPointer;
  pointer.fixed = 62;
  CostExtra dynamic{.id = "dynamic", .unit = isa::Unit::kVector, .opcodes = {"*"}};
  dynamic.present = isa::kFeatDynamic;
  dynamic.min_cycles = 600;
  dynamic.stream_factor = 2;
  c.extras = {pointer, dynamic};
  return c;
}

// A rule for one dtype only.
CostRule half_precision() {
  CostRule rule{.id = "half", .unit = isa::Unit::kVector, .opcodes = {"COPY"}};
  rule.dtypes = 1U << static_cast<unsigned>(isa::Dtype::kFloat16);
  rule.fixed = 7;
  rule.cycles_per_element = 0.5;
  return rule;
}

isa::Part part(std::int64_t elements, std::uint32_t features) {
  return {.opcode = isa::Opcode::kCOPY,
          .unit = isa::Unit::kVector,
          .features = features,
          .elements = elements};
}

}  // namespace

TEST_CASE("the first rule that matches decides") {
  const Config c = config();
  const isa::Program program(*isa::find_machine("trn2"));
  const CostTable table(c, program);
  CHECK(table.cost(part(400, isa::kFeatAll16Bit)).rule->id == "fast");
  CHECK(table.cost(part(400, isa::kFeatAll16Bit)).stream_cycles == 100);
  CHECK(table.cost(part(400, isa::kFeatAll16Bit | isa::kFeatSrcPsum)).rule->id == "rest");
  CHECK(table.cost(part(400, 0)).rule->id == "rest");
}

TEST_CASE("a cost row of a dtype is for operations of that dtype") {
  Config c = config();
  c.rules.insert(c.rules.begin(), half_precision());
  const isa::Program program(*isa::find_machine("trn2"));
  const CostTable table(c, program);
  isa::Part p = part(400, 0);
  p.dtype = isa::Dtype::kFloat16;
  CHECK(table.cost(p).rule->id == "half");
  CHECK(table.cost(p).duration == from_ns(100) + 7);  // 200 cycles at 2 GHz
  p.dtype = isa::Dtype::kFloat32;
  CHECK(table.cost(p).rule->id == "rest");
}

TEST_CASE("stream, fixed, duration and interval") {
  const Config c = config();
  const isa::Program program(*isa::find_machine("trn2"));
  const CostTable table(c, program);
  // 400 elements + 6 cycles at 2 GHz
  const Cost cost = table.cost(part(400, 0));
  CHECK(cost.stream == from_ns(203));
  CHECK(cost.duration == from_ns(203) + 100);
  CHECK(cost.interval == from_ns(203) + 60);
  CHECK(table.cost(part(3, 0)).stream == from_ns(8));  // at least 10 cycles, + 6
}

TEST_CASE("every matching extra is added") {
  const Config c = config();
  const isa::Program program(*isa::find_machine("trn2"));
  const CostTable table(c, program);
  CHECK(table.cost(part(400, isa::kFeatPointer)).fixed == 162);
  CHECK(table.cost(part(400, isa::kFeatDynamic)).stream_cycles == 806);
  CHECK(table.cost(part(100, isa::kFeatDynamic)).stream_cycles == 606);  // 200, but at least 600
  CHECK(table.cost(part(100, isa::kFeatDynamic | isa::kFeatPointer)).fixed == 162);
}

TEST_CASE("a short stream has its share of the gap behind it, and a least interval") {
  Config c = config();
  CostExtra small{.id = "short", .unit = isa::Unit::kVector, .opcodes = {"*"}};
  small.min_interval = from_ns(9);
  small.whole_gap_cycles = 100;
  c.extras.push_back(small);
  const isa::Program program(*isa::find_machine("trn2"));
  const CostTable table(c, program);
  // The gap is the fixed 100 less the overlap of 40; streams are N + 6 cycles at 2 GHz.
  CHECK(table.cost(part(94, 0)).interval == from_ns(50) + 60);  // 100 cycles: all of it
  CHECK(table.cost(part(44, 0)).interval == from_ns(25) + 30);  // 50 cycles: half of it
  CHECK(table.cost(part(14, 0)).interval == from_ns(10) + 12);  // 20 cycles: a fifth
  CHECK(table.cost(part(1, 0)).interval == from_ns(9));  // 8 ns of 16 cycles, and less than 10 fs
  CHECK(table.cost(part(44, 0)).duration == from_ns(25) + 100);  // as without it
}

TEST_CASE("a part no rule covers is an error that names it") {
  const Config c = config();
  const isa::Program program(*isa::find_machine("trn2"));
  const CostTable table(c, program);
  isa::Part scalar = part(1, 0);
  scalar.unit = isa::Unit::kScalar;
  CHECK_THROWS_WITH(table.cost(scalar), Catch::Contains("test") && Catch::Contains("COPY") &&
                                            Catch::Contains("Scalar"));
}

TEST_CASE("cached costs equal those of the table") {
  Config c = config();
  c.rules.insert(c.rules.begin(), half_precision());
  const isa::Program program(*isa::find_machine("trn2"));
  const CostTable table(c, program);
  CostCache cache(table);
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t n = 1; n < 300; ++n) {
      for (const std::uint32_t f :
           {0U, std::uint32_t{isa::kFeatAll16Bit}, std::uint32_t{isa::kFeatPointer}}) {
        for (const isa::Dtype dtype : {isa::Dtype::kFloat32, isa::Dtype::kFloat16}) {
          isa::Part p = part(n, f);
          p.dtype = dtype;
          const Cost a = cache.cost(p), b = table.cost(p);
          REQUIRE(a.rule == b.rule);
          REQUIRE(a.duration == b.duration);
        }
      }
    }
  }
}

TEST_CASE("a cached cost is that of the same operation") {
  const Config c = config();
  const isa::Program program(*isa::find_machine("trn2"));
  const CostTable table(c, program);
  CostCache cache(table);
  std::size_t different = 0;
  for (std::uint32_t features = 0; features < 1U << 14U; ++features) {
    const isa::Part p = part(512, features);
    const Cost remembered = cache.cost(p), computed = table.cost(p);
    different += static_cast<std::size_t>(remembered.rule != computed.rule ||
                                          remembered.duration != computed.duration);
  }
  CHECK(different == 0);
}
