// Effects of cores and ranks on each other at one instant depend on no order but that of the rule.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "models/run.hpp"
#include "src/config/config_json.hpp"
#include "tests/timing/tied_programs.hpp"

using namespace nkisim;
using namespace nkisim::models;
using namespace nkisim::test;

namespace {

AllTimes run(const std::vector<TraceFile>& traces, const Config& config, const TieRule& tie) {
  std::vector<Times> times;
  std::vector<RankSetup> setups = setups_of(traces, times);
  for (RankSetup& setup : setups) setup.options.tie = tie;
  isa::World world;
  world.ranks = static_cast<int>(traces.size());
  (void)run_world(setups, config, world);
  return sorted(times);
}

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* set = std::getenv(name);
  return set != nullptr ? static_cast<unsigned>(std::strtoul(set, nullptr, 10)) : otherwise;
}

// Programs whose times differ when what is due at one instant is shuffled.
int differing(unsigned programs, bool several, bool sorts) {
  const Config config =
      several ? load_config("trn2", {"hbm.bytes_per_ns=300"}) : load_config("trn1");
  int count = 0;
  for (unsigned seed = 1; seed <= programs; ++seed) {
    const std::vector<TraceFile> traces = programs_of(seed, several);
    const AllTimes usual = run(traces, config, {});
    bool differs = false;
    for (const std::uint64_t shuffle : {1, 2, 3}) {
      differs |= run(traces, config, {.shuffle_seed = shuffle, .sorts = sorts}) != usual;
    }
    INFO("seed " << seed);
    CHECK((!sorts || !differs));
    count += differs ? 1 : 0;
  }
  return count;
}

// Three quarters of them on one core.
const unsigned kPrograms = from_environment("NKISIM_TIES_PROGRAMS", 1000);

}  // namespace

TEST_CASE("what is due at one instant on cores and ranks keeps its times when it is shuffled") {
  CHECK(differing(kPrograms / 4, true, true) == 0);
}

TEST_CASE("what is due at one instant within a core keeps its times when it is shuffled") {
  CHECK(differing(kPrograms / 4 * 3, false, true) == 0);
}

TEST_CASE("without the rule of ties times of cores and ranks hang on the order") {
  CHECK(differing(40, true, false) > 0);
}

TEST_CASE("without the rule of ties times within a core hang on the order") {
  CHECK(differing(40, false, false) > 0);
}
