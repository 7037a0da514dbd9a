// Tests the semaphores of a core, and its record of finished operations: when a condition holds.
#include "models/core/semaphores.hpp"

#include <catch2/catch.hpp>

#include "models/core/completions.hpp"

using namespace nkisim;
using namespace nkisim::models;
using Compare = isa::SemaphoreWait::Compare;
using Action = isa::SemaphorePost::Action;

TEST_CASE("a semaphore condition knows since when it holds") {
  SemaphoreCounters s;
  const isa::SemaphoreWait ge{.semaphore = 3, .compare = Compare::kGe, .value = 2};
  CHECK_FALSE(s.satisfied(ge));
  CHECK(s.satisfied({.semaphore = 3, .compare = Compare::kEq, .value = 0})->time == 0);
  s.update({.semaphore = 3}, {.time = 10});
  CHECK_FALSE(s.satisfied(ge));
  s.update({.semaphore = 3}, {.time = 20});
  s.update({.semaphore = 3, .action = Action::kAdd, .value = 16}, {.time = 30});
  REQUIRE(s.satisfied(ge));
  CHECK(s.satisfied(ge)->time == 20);
  CHECK(s.value(3) == 18);
  s.update({.semaphore = 3, .action = Action::kSet, .value = 0}, {.time = 40});
  CHECK_FALSE(s.satisfied(ge));
  CHECK(s.satisfied({.semaphore = 3, .compare = Compare::kLt, .value = 1})->time == 40);
  s.update({.semaphore = 3, .action = Action::kDecrement}, {.time = 50});
  s.update({.semaphore = 3, .action = Action::kSubtract, .value = 4}, {.time = 60});
  CHECK(s.value(3) == -5);
}

TEST_CASE("every comparison below, at and above its value") {
  const auto holds = [](Compare compare) {
    std::string of;
    for (const std::int32_t value : {1, 2, 3}) {
      SemaphoreCounters s;
      s.update({.semaphore = 0, .action = Action::kSet, .value = value}, {.time = 1});
      of += s.satisfied({.semaphore = 0, .compare = compare, .value = 2}) ? '1' : '0';
    }
    return of;
  };
  CHECK(holds(Compare::kEq) == "010");
  CHECK(holds(Compare::kGe) == "011");
  CHECK(holds(Compare::kGt) == "001");
  CHECK(holds(Compare::kLe) == "110");
  CHECK(holds(Compare::kLt) == "100");
}

TEST_CASE("finished operations are numbered per queue, and old ones are forgotten") {
  Completions c(2);
  CHECK(c.begin(0, 100, 0) == 1);
  CHECK(c.begin(0, 101, 0) == 2);
  CHECK(c.begin(0, 102, 0) == 3);
  CHECK(c.begin(1, 103, 0) == 1);
  CHECK(c.get(0, 1).visible == kNever);
  c.finish(0, 1, 50, 60);
  c.finish(0, 2, 55, 70);
  CHECK(c.get(0, 1).end == 50);
  CHECK(c.get(0, 1).sequence == 100);
  CHECK(c.finished_before(0, 1, 61));
  CHECK_FALSE(c.finished_before(0, 1, 60));
  CHECK(c.begin(0, 104, 61) == 4);  // forgets 1, keeps 2
  CHECK(c.get(0, 1).visible == 0);
  CHECK(c.get(0, 2).visible == 70);
  CHECK(c.begin(0, 105, 1000) == 5);  // 3 still runs: nothing after it is forgotten
  CHECK(c.get(0, 2).visible == 0);
  CHECK(c.get(0, 3).visible == kNever);
}
