// Tests the comparison of a simulated run with a device profile, with errors summed by hand.
#include "src/device_profile/profile_diff.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "src/config/config_json.hpp"
#include "src/device_profile/align.hpp"
#include "src/device_profile/profile_import.hpp"
#include "tests/support/source_folder.hpp"

namespace nkisim {
namespace {

using Names = std::vector<std::string_view>;

// Length of the longest common subsequence by the textbook table.
std::size_t common(const Names& a, const Names& b) {
  std::vector<std::vector<std::size_t>> t(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < b.size(); ++j) {
      t[i + 1][j + 1] = a[i] == b[j] ? t[i][j] + 1 : std::max(t[i][j + 1], t[i + 1][j]);
    }
  }
  return t[a.size()][b.size()];
}

TEST_CASE("alignment keeps as many equal names as possible") {
  std::mt19937 random(7);
  constexpr std::array<std::string_view, 3> kWords = {"a", "b", "c"};
  for (int round = 0; round < 300; ++round) {
    Names a(random() % 12), b(random() % 12);
    for (auto& w : a) w = kWords.at(random() % 3);
    for (auto& w : b) w = kWords.at(random() % 3);
    const auto pairs = align(a, b);
    CHECK(pairs.size() == common(a, b));
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      CHECK(a.at(pairs[i].first) == b.at(pairs[i].second));
      if (i > 0) CHECK(pairs[i].first > pairs[i - 1].first);
      if (i > 0) CHECK(pairs[i].second > pairs[i - 1].second);
    }
  }
  CHECK(align(Names(1000, "x"), Names(500, "y"), 10).empty());
}

TimedInst timed(std::string key, std::string opcode, double start, double duration,
                double wait = -1) {
  return {.key = std::move(key),
          .name = {},
          .opcode = std::move(opcode),
          .unit = isa::Unit::kVector,
          .start = start,
          .duration = duration,
          .wait = wait};
}

TEST_CASE("a wait that one side does not know is not compared") {
  TimedRun hw, sim;
  hw.instructions = {timed("1", "COPY", 0, 100), timed("2", "COPY", 100, 200, 50),
                     timed("3", "COPY", 400, 100, 0), timed("4", "COPY", 600, 100)};
  sim.instructions = {timed("1", "COPY", 0, 100, 20), timed("2", "COPY", 100, 200),
                      timed("3", "COPY", 400, 100, 7), timed("4", "COPY", 600, 100)};
  const ProfileDiff d = diff_runs(sim, hw);
  CHECK(d.start.count == 4);
  CHECK(d.wait.count == 1);
  CHECK(d.wait.median == Approx(7));
}

TEST_CASE("errors are those of the matched instructions") {
  TimedRun hw, sim;
  hw.instructions = {timed("1", "COPY", 0, 100), timed("2", "COPY", 100, 200, 50),
                     timed("3", "EVENT_SEMAPHORE", 900, 300)};
  sim.instructions = {timed("2", "COPY", 90, 220, 20), timed("1", "COPY", 0, 90)};
  hw.packets = {{"q", 0, 3, 10, 20, 512}, {"q", 0, 3, 40, 20, 512}};
  sim.packets = {{"q", 0, 3, 15, 22, 512}};
  const ProfileDiff d = diff_runs(sim, hw);
  CHECK(d.by_key);
  CHECK(d.only_measured == 1);
  CHECK(d.only_simulated == 0);
  CHECK(d.measured_total == 300);  // semaphores do not count
  CHECK(d.simulated_total == 310);
  CHECK(d.duration.worst == Approx(0.1));
  CHECK(d.start.worst == Approx(10));
  CHECK(d.wait.count == 1);
  CHECK(d.wait.median == Approx(30));
  REQUIRE(d.opcodes.size() == 1);
  CHECK(d.opcodes[0].count == 2);
  CHECK(d.opcodes[0].measured_mean == Approx(150));
  CHECK(d.opcodes[0].simulated_mean == Approx(155));
  CHECK(d.opcodes[0].excess == Approx(30));
  REQUIRE(d.engines.size() == 1);
  CHECK(d.engines[0].measured == Approx(600));
  CHECK(d.engines[0].simulated == Approx(310 - 0 - 0));
  CHECK(d.packet_duration.median == Approx(0.1));
  CHECK(d.packet_start.median == Approx(5));
}

TEST_CASE("runs without identities are matched by opcode order") {
  TimedRun hw, sim;
  hw.instructions = {timed("1", "COPY", 0, 100), timed("2", "CAST", 100, 10),
                     timed("3", "MEMSET", 200, 30)};
  sim.instructions = {timed("", "COPY", 0, 100), timed("", "MEMSET", 100, 30)};
  const ProfileDiff d = diff_runs(sim, hw);
  CHECK_FALSE(d.by_key);
  CHECK(d.pairs.size() == 2);
  CHECK(d.only_measured == 1);
  CHECK(d.duration.worst == 0);
  CHECK(d.start.worst == Approx(100));
}

// The bounds every replay of a measured kernel must keep.
void check_replay(const std::string& path) {
  INFO(path);
  const HwProfile hw = read_hw_profile(path);
  const ImportResult imported = import_profile(hw, {});
  CHECK(imported.unknown_opcodes.empty());
  const std::string target(imported.trace.program->machine().target);
  const ProfileDiff d = diff_runs(timed_run(imported.trace, load_config(target)), timed_run(hw));
  CHECK(d.by_key);
  CHECK(d.only_measured == 0);
  CHECK(d.only_simulated == 0);
  CHECK(std::abs(relative(d.simulated_total, d.measured_total)) <= 0.05);
  CHECK(d.duration.median <= 0.05);
  CHECK(d.duration.p90 <= 0.15);
  for (const EngineDiff& e : d.engines) {
    INFO(e.engine);
    const double share = e.measured / d.measured_total;
    CHECK(std::abs(e.simulated / d.simulated_total - share) <= 0.03);
  }
  CHECK(d.measured_packets == d.simulated_packets);
  CHECK(d.packet_duration.median <= 0.10);
}

TEST_CASE("measured kernels replay within the promised bounds") {
  std::vector<std::string> folders = {source_folder() + "/clients/validation/table/profiles"};
  if (const char* more = std::getenv("NKISIM_PROFILES")) folders.emplace_back(more);
  int count = 0;
  for (const std::string& folder : folders) {
    if (!std::filesystem::exists(folder)) return;  // a tree without clients
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".json") == std::string::npos) continue;
      check_replay(entry.path().string());
      ++count;
    }
  }
  CHECK(count >= 4);
}

}  // namespace
}  // namespace nkisim
