// Tests a simulation in which a user's class replaces one of the model's engines.
#include <catch2/catch.hpp>

#include "models/core/neuron_core.hpp"
#include "models/engines/vector_engine.hpp"
#include "models/run.hpp"
#include "tests/timing/timed.hpp"

using namespace nkisim;
using namespace nkisim::models;
using PB = test::ProgramBuilder;

namespace {

// Twice the latency around what it streams.
struct SlowVector : VectorEngine {
  using VectorEngine::VectorEngine;
  [[nodiscard]] Cost price(const isa::Part& part) const override {
    Cost cost = VectorEngine::price(part);
    cost.duration += cost.fixed;
    cost.interval += cost.fixed;
    cost.fixed *= 2;
    return cost;
  }
};

std::unique_ptr<Engine> with_slow_vector(const char* name, isa::Engine id,
                                         const EngineSetup& setup) {
  if (id == isa::Engine::kVector) return std::make_unique<SlowVector>(name, setup);
  return make_engine(name, id, setup);
}

// y = x, z = y on VectorE, each 152 + 250 ns on trn2 (hand_sums_test.cpp).
Fs latency(const EngineFactory& engine) {
  PB b;
  const auto kind = isa::Dtype::kFloat32;
  const auto x = b.sbuf("x", kind, {128, 480}), y = b.sbuf("y", kind, {128, 480}),
             z = b.sbuf("z", kind, {128, 480});
  for (const auto& [to, from] : {std::pair(y, x), std::pair(z, y)}) {
    b.op("tensor_copy", {{"dst", PB::arg(b.all(to))}, {"src", PB::arg(b.all(from))}},
         isa::Engine::kVector);
  }
  RunOptions options;
  options.engine = engine;
  return run(b.program(), load_config("trn2"), nullptr, {}, options).end;
}

}  // namespace

TEST_CASE("an engine with doubled latency adds it once for each dependent instruction") {
  CHECK(latency(with_slow_vector) - latency({}) == from_ns(2 * 152));
}
