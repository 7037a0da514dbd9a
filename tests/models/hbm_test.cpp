#include "models/dma/hbm.hpp"

#include <catch2/catch.hpp>

using namespace nkisim::models;

TEST_CASE("an HBM stack that can serve every engine never delays") {
  Hbm hbm({.bytes_per_ns = 500}, 436);
  CHECK_FALSE(hbm.limits());
  CHECK(hbm.delay(0, from_ns(10), 1e9) == 0);
}

TEST_CASE("transfers at the same time share the stack's rate") {
  Hbm hbm({.bytes_per_ns = 100}, 436);
  REQUIRE(hbm.limits());
  // 100 000 bytes at 100 B/ns take all of 1000 ns.
  CHECK(hbm.delay(0, from_ns(1000), 100'000) == 0);
  // As many again can only move in the next 1000 ns, whoever asks.
  const Fs late = hbm.delay(0, from_ns(1000), 100'000);
  CHECK(to_ns(late) == Approx(1000).epsilon(0.15));  // whole windows of 256 ns
  // Nobody asked for the time after 3000 ns.
  CHECK(hbm.delay(from_ns(3000), from_ns(1000), 50'000) == 0);
}

TEST_CASE("one transfer cannot exceed the stack's rate") {
  Hbm hbm({.bytes_per_ns = 100}, 436);
  // 200 B/ns asked for, so twice the time
  CHECK(to_ns(hbm.delay(0, from_ns(10'000), 2'000'000)) == Approx(10'000).epsilon(0.02));
}
