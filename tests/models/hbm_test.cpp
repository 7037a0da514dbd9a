// Tests that transfers at the same time share the rate of an HBM stack.
#include "models/memory/hbm.hpp"

#include <catch2/catch.hpp>
#include <deque>

using namespace nkisim::models;

TEST_CASE("an HBM stack that can serve every engine never delays") {
  Hbm hbm({.bytes_per_ns = 500}, 436, 16);
  CHECK_FALSE(hbm.limits());
  CHECK(hbm.delay(0, from_ns(10), 1e9) == 0);
}

TEST_CASE("transfers at the same time share the stack's rate") {
  Hbm hbm({.bytes_per_ns = 100}, 400, 4);
  REQUIRE(hbm.limits());
  // 100 000 bytes at 100 B/ns take all of 1000 ns.
  CHECK(hbm.delay(0, from_ns(1000), 100'000) == 0);
  // Windows are 256 ns and hold 25 600 bytes: the first took three and 23 200 bytes of the fourth.
  // The second has its share there, 25 B/ns: 4 x 6400 bytes, owed by 2400 of the fourth window and
  // 23 200 of the fifth. Then each window's rest at 100 B/ns and its share for what time is left:
  // 2400 in 24 ns and 232 ns x 25 = 5800; 19 800 in 198 ns and 58 ns x 25 = 1450; 24 150 in
  // 241.5 ns and 14.5 ns x 25 = 362.5. The last 20 437.5 take 204.375 ns from 1792 ns on.
  const Fs late = hbm.delay(0, from_ns(1000), 100'000);
  CHECK(to_ns(late) == Approx(1792 + 204.375 - 1000));
  // Nothing asked for the time after 3000 ns.
  CHECK(hbm.delay(from_ns(3000), from_ns(1000), 50'000) == 0);
}

TEST_CASE("one transfer cannot exceed the stack's rate") {
  Hbm hbm({.bytes_per_ns = 100}, 400, 4);
  // 200 B/ns asked for, so twice the time
  CHECK(to_ns(hbm.delay(0, from_ns(10'000), 2'000'000)) == Approx(10'000).epsilon(0.02));
}

TEST_CASE("a transfer that starts late in a window gets only the rest of it") {
  Hbm hbm({.bytes_per_ns = 100}, 400, 4);
  // 100 B/ns from 200 to 300 ns: 5600 bytes before 256 ns, the end of the window, 4400 after.
  // 25 600 bytes of each window are there, so four such transfers go at once.
  for (int i = 0; i < 4; ++i) CHECK(hbm.delay(from_ns(200), from_ns(100), 10'000) == 0);
  // The fifth finds 3200 bytes in the first window, then has 25 B/ns for 24 ns: 600, owed by the
  // next, which has 7400 left. The last 6200 take 62 ns of it.
  CHECK(hbm.delay(from_ns(200), from_ns(100), 10'000) == from_ns(256 + 62 - 300));
}

namespace {

// An engine that moves 100 bytes/ns in transfers of 100 ns.
struct Engine : HbmUser {
  explicit Engine(Hbm& stack) : hbm(stack) { hbm.join(*this); }
  void take_until(Fs now, bool every) override {
    everys += every ? 1 : 0;
    for (; left > 0 && at <= now; --left) at += from_ns(100) + hbm.delay(at, from_ns(100), 10'000);
  }
  [[nodiscard]] HbmAhead ahead() const override { return left > 0 ? HbmAhead{at, 1} : HbmAhead{}; }
  [[nodiscard]] CoreId id() const override { return {}; }
  Hbm& hbm;
  Fs at = 0;
  int left = 400, everys = 0;
};

}  // namespace

TEST_CASE("engines that are computed late end with those computed before") {
  Hbm hbm({.bytes_per_ns = 100}, 400, 4);
  std::deque<Engine> engines;
  for (int e = 0; e < 4; ++e) engines.emplace_back(hbm);
  hbm.settle(from_ns(200'000));
  Fs least = kNever, most = 0;
  for (const Engine& e : engines) {
    CHECK(e.left == 0);
    least = std::min(least, e.at);
    most = std::max(most, e.at);
  }
  // 16 MB at 100 B/ns are 160 us.
  CHECK(to_ns(most) == Approx(160'000).epsilon(0.005));
  CHECK(to_ns(least) == Approx(160'000).epsilon(0.01));
}

TEST_CASE("DMA engines that leave HBM bandwidth are computed in one step") {
  Hbm hbm({.bytes_per_ns = 399}, 400, 4);
  std::deque<Engine> engines;
  for (int e = 0; e < 3; ++e) engines.emplace_back(hbm);
  hbm.settle(from_ns(200'000));
  for (const Engine& e : engines) {
    CHECK(e.at == from_ns(40'000));
    CHECK(e.everys == 0);
  }
}

TEST_CASE("engines share what others leave") {
  Hbm hbm({.bytes_per_ns = 100}, 400, 4);
  hbm.reserve(0, from_ns(1024), 102'400);  // all of four windows
  // Nothing in them, not even a share, then 10 000 bytes at 100 B/ns.
  CHECK(hbm.delay(0, from_ns(100), 10'000) == from_ns(1024));
  // The part that does not fit is reserved later: 12 800 of the fifth window's 15 600 bytes.
  hbm.reserve(from_ns(768), from_ns(256), 12'800);
  CHECK(hbm.delay(from_ns(1024), from_ns(28), 2'800) == 0);
  // Shares are of the other half: 12.5 B/ns.
  CHECK(to_ns(hbm.delay(from_ns(1024), from_ns(10), 1'000)) == Approx(80 - 10));
}
