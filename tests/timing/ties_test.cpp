// Tests that events of cores and ranks at one instant take effect in a fixed order, whatever the
// order in which SystemC runs the processes.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <vector>

#include "models/run.hpp"
#include "models/sim_session.hpp"
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

Config config_of(bool several) {
  return several ? load_config("trn2", {"hbm.bytes_per_ns=300"}) : load_config("trn1");
}

// One number of all moments of a program.
std::uint64_t digest(const AllTimes& ranks) {
  std::uint64_t h = 0xcbf29ce484222325U;
  const auto add = [&h](std::uint64_t value) { h = (h ^ value) * 0x100000001b3U; };
  for (const auto& times : ranks) {
    add(times.size());
    for (const auto& [core, sequence, part, start, end] : times) {
      add(static_cast<std::uint64_t>(core));
      add(sequence);
      add(static_cast<std::uint64_t>(part));
      add(static_cast<std::uint64_t>(start));
      add(static_cast<std::uint64_t>(end));
    }
  }
  return h;
}

// One of several processes that are due at once, which note the order in which they are run.
class Due : public sc_core::sc_module {
 public:
  Due(const sc_core::sc_module_name& name, std::vector<std::string>& order)
      : sc_module(name), order_(order) {
    SC_HAS_PROCESS(Due);
    SC_METHOD(step);
  }

 private:
  void step() { order_.emplace_back(name()); }
  std::vector<std::string>& order_;
};

std::vector<std::string> order_of_processes() {
  SimSession session;
  std::vector<std::string> order;
  std::vector<std::unique_ptr<Due>> all;
  for (int i = 0; i < 16; ++i) {
    all.push_back(std::make_unique<Due>(("due" + std::to_string(i)).c_str(), order));
  }
  session.run();
  while (!all.empty()) all.pop_back();
  return order;
}

// Programs whose times differ when what is due at one instant is shuffled.
int differing(unsigned programs, bool several, bool sorts) {
  const Config config = config_of(several);
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

// For tests/timing/systemc_orders, which compares the files of several SystemC libraries. The first
// line is the order of 16 processes that are due at once.
TEST_CASE("times of all drawn programs go to a file", "[.systemc_orders]") {
  const char* path = std::getenv("NKISIM_TIES_FILE");
  REQUIRE(path != nullptr);
  std::ofstream out(path);
  out << "order";
  for (const std::string& name : order_of_processes()) out << ' ' << name;
  out << '\n';
  const TieRule tie{.sorts = std::getenv("NKISIM_TIES_UNSORTED") == nullptr};
  for (const bool several : {true, false}) {
    const Config config = config_of(several);
    for (unsigned seed = 1; seed <= kPrograms / 4 * (several ? 1U : 3U); ++seed) {
      const std::uint64_t all = digest(run(programs_of(seed, several), config, tie));
      out << (several ? "several " : "one ") << seed << ' ' << all << '\n';
    }
  }
  CHECK(out.flush().good());
}
