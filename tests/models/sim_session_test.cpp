// Tests that a simulation leaves SystemC's global state as it was, and ends in linear time.
#include "models/sim_session.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "isa/base/error.hpp"

using namespace nkisim;
using models::Alarm;
using models::Clock;
using models::Fs;
using models::SimSession;

namespace {

// Counts its activations: one at 0, and one every `period` up to `last`.
struct Ticker : sc_core::sc_module {
  Ticker(const sc_core::sc_module_name& name, Fs period_fs, Fs last_fs)
      : sc_module(name), period(period_fs), last(last_fs) {
    SC_HAS_PROCESS(Ticker);
    SC_METHOD(tick);
    sensitive << again;
  }
  void tick() {
    ++ticks;
    if (on_tick) on_tick();
    if (SimSession::now() + period <= last) again.notify(SimSession::time(period));
  }
  Fs period, last;
  int ticks = 0;
  std::function<void()> on_tick;
  sc_core::sc_event again;
};

// Acts at times of its own, as a core does: by itself as long as the clock lets it. It pokes the
// other now and then, in a delta cycle.
struct Actor : sc_core::sc_module {
  Actor(const sc_core::sc_module_name& name, Clock& clock_of, Fs first, std::uint32_t seed,
        std::vector<std::pair<Fs, std::string>>& all)
      : sc_module(name),
        clock(clock_of),
        alarm(clock, "alarm"),
        next(first),
        random(seed),
        seen(all) {
    SC_HAS_PROCESS(Actor);
    SC_METHOD(step);
    sensitive << alarm.event();
  }
  void step() {
    if (poked) seen.emplace_back(clock.now(), std::string(basename()) + " poked");
    poked = false;
    while (next <= clock.now() || (next < kLast && clock.advance(next))) {
      seen.emplace_back(clock.now(), basename());
      ++activations;
      next = clock.now() + 2 * (1 + random() % 50);  // the other's are odd, so that none meet
      if (other != nullptr && random() % 5 == 0) {
        other->poked = true;
        other->alarm.ring_next();
      }
    }
    ++steps;
    if (next < kLast) alarm.ring_at(next);
  }
  static constexpr Fs kLast = 20000;
  Clock& clock;
  Alarm alarm;
  Fs next;
  std::mt19937 random;
  std::vector<std::pair<Fs, std::string>>& seen;
  Actor* other = nullptr;
  bool poked = false;
  int activations = 0, steps = 0;
};

int seen = 0;
void count_report(const sc_core::sc_report&, const sc_core::sc_actions&) { ++seen; }

}  // namespace

TEST_CASE("a process that goes on by itself passes nothing of another's") {
  std::vector<std::pair<Fs, std::string>> seen[2];
  for (const bool ahead : {false, true}) {
    SimSession session;
    if (ahead) session.run_ahead();
    Actor even("even", session.clock(), 0, 1, seen[ahead]);
    Actor odd("odd", session.clock(), 1, 2, seen[ahead]);
    even.other = &odd;
    odd.other = &even;
    const SimSession::Ending ending(session);
    session.run_until(9000);
    const auto before_limit = [](const auto& at) { return at.first < 9000; };
    CHECK(std::all_of(seen[ahead].begin(), seen[ahead].end(), before_limit));
    session.run();
    const int activations = even.activations + odd.activations, steps = even.steps + odd.steps;
    CHECK(activations > 500);
    CHECK((steps < activations) == ahead);  // without, each is a step of its own; and each poke
  }
  CHECK(seen[false] == seen[true]);
}

TEST_CASE("a session has its own context, time and hierarchy") {
  const sc_core::sc_simcontext* outside = sc_core::sc_get_curr_simcontext();
  const std::size_t objects = sc_core::sc_get_top_level_objects().size();
  for (int round = 0; round < 3; ++round) {
    SimSession session(round == 1);  // with the preparation for many modules, or without
    Ticker ticker("ticker", 7, 70);
    const SimSession::Ending ending(session);
    session.run();
    CHECK(ticker.ticks == 11);  // at 0, 7, ... 70
    CHECK(SimSession::now() == 70);
    CHECK(std::string(ticker.name()) == "ticker");  // not renamed: the last round's is gone
    REQUIRE(sc_core::sc_get_top_level_objects().size() == 1);
    CHECK(sc_core::sc_get_top_level_objects().front() == &ticker);
    CHECK(sc_core::sc_get_curr_simcontext() != outside);
  }
  CHECK(sc_core::sc_get_curr_simcontext() == outside);
  CHECK(sc_core::sc_get_top_level_objects().size() == objects);
}

TEST_CASE("a session gives back the report handler, actions and counts of its caller") {
  using Handler = sc_core::sc_report_handler;
  const auto before = Handler::set_handler(count_report);
  const auto error_actions = Handler::set_actions(sc_core::SC_ERROR, sc_core::SC_DISPLAY);
  const int warnings = Handler::get_count(sc_core::SC_WARNING);
  const int errors = Handler::get_count(sc_core::SC_ERROR);
  seen = 0;
  {
    SimSession session;
    SC_REPORT_WARNING("within", "dropped");
    CHECK_THROWS_AS(sc_core::sc_set_time_resolution(1, sc_core::SC_PS), isa::Error);
  }
  CHECK(seen == 0);
  CHECK(Handler::get_count(sc_core::SC_WARNING) == warnings);
  CHECK(Handler::get_count(sc_core::SC_ERROR) == errors);
  SC_REPORT_WARNING("outside", "seen");
  CHECK(seen == 1);
  CHECK(Handler::set_actions(sc_core::SC_ERROR, error_actions) == sc_core::SC_DISPLAY);
  CHECK(Handler::set_handler(before) == count_report);
}

TEST_CASE("an error ends a session, and the next one begins anew") {
  {
    SimSession session;
    Ticker ticker("ticker", 5, 100);
    ticker.on_tick = [&] {
      if (ticker.ticks < 4) return;
      session.fail(std::make_exception_ptr(isa::Error(isa::Rule::systemc, "at the fourth")));
      ticker.last = 0;
    };
    const SimSession::Ending ending(session);
    CHECK_THROWS_WITH(session.run(), Catch::Contains("at the fourth"));
    CHECK(session.stopped());
    CHECK(SimSession::now() == 15);
  }
  SimSession session;
  Ticker ticker("ticker", 5, 100);
  const SimSession::Ending ending(session);
  session.run();
  CHECK(ticker.ticks == 21);
}

TEST_CASE("a session goes on after a limit and after a pause") {
  SimSession session;
  Ticker ticker("ticker", 10, 50);
  const SimSession::Ending ending(session);
  session.run_until(30);  // of its last moment nothing runs
  CHECK(ticker.ticks == 3);
  CHECK(SimSession::next() == 30);
  ticker.on_tick = [] { SimSession::pause(); };
  session.run_until(models::kNever);
  CHECK(ticker.ticks == 4);
  ticker.on_tick = {};
  session.run();
  CHECK(ticker.ticks == 6);
  CHECK(SimSession::next() == models::kNever);
}

TEST_CASE("a session within a session is refused") {
  const SimSession session;
  CHECK_FALSE(SimSession::within_process());
  std::optional<SimSession> second;
  try {
    second.emplace();
    FAIL("no error");
  } catch (const isa::Error& e) {
    CHECK(e.rule() == isa::Rule::nested_simulation);
  }
}

// An unbound port is an error of elaboration, which never began the simulation.
TEST_CASE("an error at elaboration is reported, and SystemC's state is restored") {
  struct Open : sc_core::sc_module {
    explicit Open(const sc_core::sc_module_name& name) : sc_module(name) {}
    sc_core::sc_port<sc_core::sc_signal_in_if<bool>> port{"port"};
  };
  const sc_core::sc_simcontext* outside = sc_core::sc_get_curr_simcontext();
  {
    SimSession session;
    const Open open("open");
    const SimSession::Ending ending(session);
    CHECK_THROWS_WITH(session.run(), Catch::Contains("open.port"));
  }
  CHECK(sc_core::sc_get_curr_simcontext() == outside);
  SimSession session;
  session.run();
}
