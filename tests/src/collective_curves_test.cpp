// Tests the simulated times of collectives over sizes, ranks and rates.
#include <array>
#include <bit>
#include <catch2/catch.hpp>

#include "models/collective/collective.hpp"
#include "src/config/config.hpp"

using namespace nkisim;
using namespace nkisim::models;

namespace {

constexpr std::array kKinds = {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                               CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll};

// The time of a group of the first `ranks`, whose larger side has so many bytes.
Fs time_of(const Collectives& world, CollectiveKind kind, int ranks, std::int64_t bytes) {
  CollectiveRequest r{.kind = kind};
  for (int rank = 0; rank < ranks; ++rank) r.ranks.push_back(rank);
  r.bytes = kind == CollectiveKind::kAllGather ? bytes / ranks : bytes;
  r.triggered.assign(r.ranks.size(), 0);
  return world.alone(r).ranks.front().end;
}

struct Machine {
  std::string target;
  int lnc;
  std::vector<int> ranks;
};

std::vector<Machine> machines() {
  return {{"trn1", 1, {2, 6, 8, 16, 32, 64}},
          {"trn2", 2, {2, 3, 4, 6, 8, 12, 16, 32, 64, 128}},
          {"trn2", 1, {2, 8, 16, 128}},
          {"trn3", 2, {4, 8, 64}}};
}

std::string name_of(const Machine& m, CollectiveKind kind, int ranks, std::int64_t bytes) {
  return m.target + " LNC " + std::to_string(m.lnc) + ", " + std::string(name(kind)) + " of " +
         std::to_string(ranks) + " ranks, " + std::to_string(bytes) + " bytes";
}

}  // namespace

// Steps of 1/8 in size: a larger operation takes as long or longer, and nowhere does the time leap
// where another algorithm takes over.
TEST_CASE("collectives take longer with their size, without leaps") {
  for (const Machine& m : machines()) {
    const Config config = load_config(m.target);
    const Collectives world(config, m.lnc, m.ranks.back());
    for (const CollectiveKind kind : kKinds) {
      for (const int ranks : m.ranks) {
        Fs before = 0;
        for (double size = 1024; size < 3e9; size *= 1.125) {
          const auto bytes = static_cast<std::int64_t>(size) / ranks * ranks;
          const Fs now = time_of(world, kind, ranks, bytes);
          INFO(name_of(m, kind, ranks, bytes));
          CHECK(now >= before);
          if (before > 0) CHECK(to_ns(now) < 1.25 * to_ns(before));
          before = now;
        }
      }
    }
  }
}

// Small operations are steps and handshakes, of which more ranks need as many or more. (Large ones
// may be quicker on more chips, which have more links.)
TEST_CASE("small collectives take longer with the number of ranks") {
  for (const Machine& m : machines()) {
    const Config config = load_config(m.target);
    const Collectives world(config, m.lnc, m.ranks.back());
    for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather}) {
      for (const std::int64_t bytes : {1536, 12 * 1024, 32 * 1024}) {
        Fs before = 0;
        for (const int ranks : m.ranks) {
          if (!std::has_single_bit(static_cast<unsigned>(ranks)))
            continue;  // chips in other shapes
          const Fs now = time_of(world, kind, ranks, bytes / ranks * ranks);
          INFO(name_of(m, kind, ranks, bytes));
          CHECK(to_ns(now) > 0.999 * to_ns(before));
          before = now;
        }
      }
    }
  }
}

TEST_CASE("no faster part of a machine makes a collective slower") {
  for (const std::string setting :
       {"topology.link_bytes_per_ns=256", "hbm.bytes_per_ns=1450",
        "topology.network_bytes_per_ns=50", "collectives.handshake=3000",
        "collectives.algorithms.rdh.step=2000", "collectives.algorithms.kangaring.step=2000",
        "collectives.network_step=9000"}) {
    const Config plain = load_config("trn2"), faster = load_config("trn2", {setting});
    const Collectives slow_world(plain, 2, 128), fast_world(faster, 2, 128);
    for (const CollectiveKind kind : kKinds) {
      for (const int ranks : {4, 16, 64, 128}) {
        for (std::int64_t bytes = 4096; bytes < std::int64_t{1} << 31U; bytes *= 4) {
          INFO(setting + ": " + name_of({"trn2", 2, {}}, kind, ranks, bytes));
          CHECK(time_of(fast_world, kind, ranks, bytes) <= time_of(slow_world, kind, ranks, bytes));
        }
      }
    }
  }
}
