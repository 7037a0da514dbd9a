// Tests which waits an instruction's dependences need, on cases worked out by hand.
#include "models/issue/wait_placer.hpp"

#include <catch2/catch.hpp>

using namespace nkisim;
using isa::Engine;
using models::Edge;
using models::Need;
using models::QueueIndex;

namespace {

constexpr QueueIndex kT = 0, kV = 1, kS = 2, kSync = 4, kLoads = 5;
constexpr auto kRaw = Edge::Kind::kReadAfterWrite;
constexpr auto kWar = Edge::Kind::kWriteAfterRead;

struct Wait {
  QueueIndex queue;
  std::uint64_t number;
  bool operator==(const Wait&) const = default;
};
using Waits = std::vector<Wait>;

struct Placed {
  models::Completions completions{6};
  models::WaitPlacer placer{completions};

  // The next operation of `queue`, issued by `engine`; what it waits for.
  Waits next(Engine engine, QueueIndex queue, std::vector<Edge> edges = {}) {
    const std::uint64_t number = completions.begin(queue, 0, 0);
    std::vector<Need> needs;
    placer.place({.engine = engine,
                  .queue = queue,
                  .number = number,
                  .detached = queue >= isa::kEngineCount},
                 edges, needs);
    Waits waits;
    for (const Need& n : needs) waits.push_back({n.queue, n.number});
    return waits;
  }
};

}  // namespace

TEST_CASE("an engine waits once for what has finished", "[waits]") {
  Placed p;
  p.next(Engine::kVector, kV);
  p.next(Engine::kVector, kV);
  CHECK(p.next(Engine::kScalar, kS, {{kV, 2, kRaw}}) == Waits{{kV, 2}});
  CHECK(p.next(Engine::kScalar, kS, {{kV, 1, kRaw}}).empty());  // before what it waited for
  CHECK(p.next(Engine::kScalar, kS, {{kV, 1, kRaw}, {kV, 2, kRaw}}).empty());
}

TEST_CASE("of several instructions of an engine the last is waited for", "[waits]") {
  Placed p;
  for (int i = 0; i < 3; ++i) p.next(Engine::kVector, kV);
  CHECK(p.next(Engine::kScalar, kS, {{kV, 1, kRaw}, {kV, 3, kRaw}, {kV, 2, kWar}}) ==
        Waits{{kV, 3}});
}

TEST_CASE("the data path keeps its own order, results need a wait", "[waits]") {
  Placed p;
  p.next(Engine::kVector, kV);
  CHECK(p.next(Engine::kVector, kV, {{kV, 1, kWar}}).empty());
  CHECK(p.next(Engine::kVector, kV, {{kV, 1, kRaw}}) == Waits{{kV, 1}});
}

TEST_CASE("a wait implies what the producer had waited for", "[waits]") {
  Placed p;
  p.next(Engine::kScalar, kS);                                            // S1
  CHECK(p.next(Engine::kVector, kV, {{kS, 1, kRaw}}) == Waits{{kS, 1}});  // V1 after S1
  p.next(Engine::kVector, kV);                                            // V2
  SECTION("in one instruction") {
    CHECK(p.next(Engine::kTensor, kT, {{kS, 1, kRaw}, {kV, 2, kRaw}}) == Waits{{kV, 2}});
  }
  SECTION("in a later one") {
    CHECK(p.next(Engine::kTensor, kT, {{kV, 1, kRaw}}) == Waits{{kV, 1}});
    CHECK(p.next(Engine::kTensor, kT, {{kS, 1, kRaw}}).empty());
  }
  SECTION("but not what it waited for afterwards") {
    p.next(Engine::kScalar, kS);                                            // S2
    CHECK(p.next(Engine::kVector, kV, {{kS, 2, kRaw}}) == Waits{{kS, 2}});  // V3 after S2
    CHECK(p.next(Engine::kTensor, kT, {{kS, 2, kRaw}, {kV, 2, kRaw}}) == Waits{{kS, 2}, {kV, 2}});
  }
}

TEST_CASE("every DMA has a semaphore of its own", "[waits]") {
  Placed p;
  p.next(Engine::kSync, kLoads);
  p.next(Engine::kSync, kLoads);
  // Two loaded operands are two waits, whatever queue they came through; later uses need none.
  CHECK(p.next(Engine::kTensor, kT, {{kLoads, 1, kRaw}, {kLoads, 2, kRaw}}) ==
        Waits{{kLoads, 1}, {kLoads, 2}});
  CHECK(p.next(Engine::kTensor, kT, {{kLoads, 2, kRaw}}).empty());
  // A load into the tile waits for the product that read it, which implies the tile's first load.
  CHECK(p.next(Engine::kSync, kLoads, {{kT, 1, kWar}, {kLoads, 1, kRaw}}) == Waits{{kT, 1}});
  // Others learn what SyncE knows by its DMA only from SyncE's next instruction.
  p.next(Engine::kSync, kSync);
  CHECK(p.next(Engine::kVector, kV, {{kSync, 1, kRaw}, {kT, 1, kRaw}}) == Waits{{kSync, 1}});
}

TEST_CASE("a DMA that one engine has waited for others still wait for", "[waits]") {
  Placed p;
  p.next(Engine::kSync, kLoads);
  CHECK(p.next(Engine::kTensor, kT, {{kLoads, 1, kRaw}}) == Waits{{kLoads, 1}});
  CHECK(p.next(Engine::kVector, kV, {{kLoads, 1, kRaw}}) == Waits{{kLoads, 1}});
  // ScalarE knows it of the engine that it has waited for.
  CHECK(p.next(Engine::kScalar, kS, {{kT, 1, kRaw}}) == Waits{{kT, 1}});
  CHECK(p.next(Engine::kScalar, kS, {{kLoads, 1, kRaw}}).empty());
}
