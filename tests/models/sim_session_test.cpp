// Tests that a simulation leaves SystemC's global state as it was, and ends in linear time.
#include "models/sim_session.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isa/base/error.hpp"

using namespace nkisim;
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

int seen = 0;
void count_report(const sc_core::sc_report&, const sc_core::sc_actions&) { ++seen; }

}  // namespace

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
