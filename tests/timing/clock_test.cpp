// Tests the simulator's clock within another SystemC design: femtoseconds within a coarser
// resolution, in their order.
#include "models/clock.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/timing/host.hpp"

using namespace nkisim;
using namespace nkisim::models;

namespace {

// Notes the clock's time at each ring of two alarms; the first starts a chain
// of delta cycles.
struct Noting : sc_core::sc_module {
  Noting(const sc_core::sc_module_name& name, Clock& clock_of, Fs first_at, Fs second_at)
      : sc_module(name),
        clock(clock_of),
        first(clock, "first"),
        second(clock, "second"),
        next(clock, "next"),
        first_time(first_at),
        second_time(second_at) {
    SC_HAS_PROCESS(Noting);
    SC_METHOD(start);
    SC_METHOD(on_first);
    sensitive << first.event();
    dont_initialize();
    SC_METHOD(on_second);
    sensitive << second.event();
    dont_initialize();
    SC_METHOD(on_next);
    sensitive << next.event();
    dont_initialize();
  }
  void start() {
    second.ring_at(second_time);
    first.ring_at(first_time);
  }
  void on_first() {
    note("first");
    next.ring_next();
  }
  void on_second() { note("second"); }
  void on_next() {
    note("next");
    if (--chain > 0) next.ring_next();
  }
  void note(const std::string& what) {
    seen.emplace_back(what, clock.now());
    at.push_back(sc_core::sc_time_stamp().value());
  }
  Clock& clock;
  Alarm first, second, next;
  Fs first_time, second_time;
  int chain = 3;
  std::vector<std::pair<std::string, Fs>> seen;
  std::vector<std::uint64_t> at;
};

}  // namespace

TEST_CASE(
    "delta cycles of a femtosecond are over before the next one of the "
    "tick begins") {
  for (const Fs tick : {1, 100, 1000}) {
    test::Host host(static_cast<double>(tick));
    HostClock clock("clock");
    const Noting noting("noting", clock, 2500, 2600);
    host.run();
    CHECK(noting.seen ==
          std::vector<std::pair<std::string, Fs>>{
              {"first", 2500}, {"next", 2500}, {"next", 2500}, {"next", 2500}, {"second", 2600}});
    CHECK(noting.at.front() == static_cast<std::uint64_t>((2500 + tick - 1) / tick));
    CHECK(noting.at.back() == static_cast<std::uint64_t>((2600 + tick - 1) / tick));
  }
}

TEST_CASE("an alarm keeps the earlier of its times, and can be cancelled") {
  for (const Fs tick : {1, 1000}) {
    test::Host host(static_cast<double>(tick));
    HostClock clock("clock");
    Noting noting("noting", clock, 7000, 9000);
    struct Change : sc_core::sc_module {
      Change(const sc_core::sc_module_name& name, Noting& of) : sc_module(name), noting_(of) {
        SC_HAS_PROCESS(Change);
        SC_METHOD(change);
        sensitive << of.first.event();
        dont_initialize();
      }
      void change() {
        noting_.second.ring_at(8000);
        noting_.second.ring_at(8500);
        noting_.first.ring_at(10000);
        noting_.first.cancel();
      }
      Noting& noting_;
    };
    const Change change("change", noting);
    noting.chain = 1;
    host.run();
    CHECK(noting.seen == std::vector<std::pair<std::string, Fs>>{
                             {"first", 7000}, {"next", 7000}, {"second", 8000}});
  }
}
