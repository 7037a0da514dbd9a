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
  // Windows are 256 ns and hold 25 600 bytes. The first took three of them and 23 200 bytes of the
  // fourth. The second finds 2400 there and 25 600 in each of the next three, which end at 1792 ns;
  // the last 20 800 take 208 ns.
  const Fs late = hbm.delay(0, from_ns(1000), 100'000);
  CHECK(late == from_ns(1792 + 208 - 1000));
  // Nobody asked for the time after 3000 ns.
  CHECK(hbm.delay(from_ns(3000), from_ns(1000), 50'000) == 0);
}

TEST_CASE("one transfer cannot exceed the stack's rate") {
  Hbm hbm({.bytes_per_ns = 100}, 436);
  // 200 B/ns asked for, so twice the time
  CHECK(to_ns(hbm.delay(0, from_ns(10'000), 2'000'000)) == Approx(10'000).epsilon(0.02));
}

TEST_CASE("who starts late in a window asks for the rest of it only") {
  Hbm hbm({.bytes_per_ns = 100}, 436);
  // 100 B/ns from 200 to 300 ns: 5600 bytes before 256 ns, the end of the window, 4400 after.
  // 25 600 bytes of each window are there, so four such transfers go at once.
  for (int i = 0; i < 4; ++i) CHECK(hbm.delay(from_ns(200), from_ns(100), 10'000) == 0);
  // The fifth finds 3200 bytes in the first window and takes 6800 in the next: 68 ns from 256 on.
  CHECK(hbm.delay(from_ns(200), from_ns(100), 10'000) == from_ns(256 + 68 - 300));
}
