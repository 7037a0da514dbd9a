// Tests the timing model of the PE array: weights, multiplies, tiles and throttling.
#include "models/engines/array.hpp"

#include <catch2/catch.hpp>

using namespace nkisim;
using namespace nkisim::models;

namespace {

// Round figures: 1 GHz, so a cycle is 1 ns.
Config config(bool throttled) {
  Config c;
  c.array = {.lead = from_ns(8),
             .lead_throttled = from_ns(47),
             .bubble = from_ns(3),
             .bubble_throttled = from_ns(5),
             .tile = 32};
  c.throttle = {.enabled = throttled,
                .window = from_ns(1000),
                .rise = 0.5,
                .fall = 0.3,
                .slow_rate = 0.5,
                .first_boundary = from_ns(600)};
  return c;
}

isa::Part load(int row = 0, int rows = 128) {
  isa::Part p;
  p.unit = isa::Unit::kTensor;
  p.row_start = row;
  p.rows = rows;
  p.columns = 128;
  return p;
}
isa::Part multiply(int row = 0, int rows = 128) {
  isa::Part p = load(row, rows);
  p.unit = isa::Unit::kTensorMatrix;
  return p;
}
Cost cost(double ns, double tail) {
  Cost c;
  c.stream = from_ns(ns);
  c.fixed = from_ns(tail);
  return c;
}

}  // namespace

TEST_CASE("weights load while the previous multiply streams") {
  const auto machine = config(false);  // the array keeps a reference
  Array array(machine);
  const auto l0 = array.run(load(), cost(32, 76), array.earliest(load(), 0));
  CHECK(l0.end == from_ns(32 + 76));
  const auto m0 = array.run(multiply(), cost(512, 157), array.earliest(multiply(), from_ns(2)));
  CHECK(m0.start == from_ns(2));
  CHECK(m0.busy_from == from_ns(32 + 3));  // weights, then the bubble
  CHECK(m0.end == from_ns(32 + 3 + 512 + 157));
  // The buffer is free once m0 streams: 8 ns lead.
  CHECK(array.earliest(load(), from_ns(4)) == from_ns(35 - 8));
  const auto l1 = array.run(load(), cost(32, 76), from_ns(27));
  CHECK(l1.busy_from == from_ns(35 + 3));
  // Back to back: one multiply per stream plus bubble.
  const Fs at = array.earliest(multiply(), from_ns(30));
  CHECK(at == from_ns(35 + 512 - 8));
  const auto m1 = array.run(multiply(), cost(512, 157), at);
  CHECK(m1.busy_from - m0.busy_from == from_ns(512 + 3));
}

TEST_CASE("without a second buffer weights load behind the previous multiply") {
  Config machine = config(false);
  machine.array.background_load = false;
  Array array(machine);
  array.run(load(), cost(32, 76), 0);
  const auto m0 = array.run(multiply(), cost(512, 157), from_ns(2));
  CHECK(m0.busy_to == from_ns(32 + 3 + 512));
  CHECK(array.earliest(load(), from_ns(4)) == from_ns(547 - 8));
  const auto l1 = array.run(load(), cost(32, 76), from_ns(539));
  CHECK(l1.busy_from == from_ns(547));
  const auto m1 = array.run(multiply(), cost(512, 157), array.earliest(multiply(), from_ns(541)));
  CHECK(m1.busy_from == from_ns(547 + 32 + 3));
}

TEST_CASE("multiplies on disjoint row tiles overlap, on shared ones do not") {
  const auto machine = config(false);  // the array keeps a reference
  Array array(machine);
  array.run(load(0, 32), cost(8, 0), 0);
  array.run(load(32, 32), cost(8, 0), array.earliest(load(32, 32), 0));
  const auto a = array.run(multiply(0, 32), cost(512, 0), from_ns(8));
  const auto b =
      array.run(multiply(32, 32), cost(512, 0), array.earliest(multiply(32, 32), from_ns(10)));
  CHECK(b.busy_from < a.busy_to);
  const auto c = array.run(multiply(0, 128), cost(64, 0), array.earliest(multiply(), from_ns(20)));
  CHECK(c.busy_from >= b.busy_to);
}

constexpr std::array<Activity, 1> kAllRows = {{{.from = 0, .weight = {1, 1, 1}}}};

TEST_CASE("throttling ends after a busy window and returns after an idle one") {
  const Config c = config(true);
  Throttle t(c.throttle);
  t.begin(0);
  // Windows: [-400, 600) slow, then by activity. 300 ns of work from 0 takes 600 ns at half rate.
  CHECK(t.level(0) == 0);
  CHECK(t.finish(0, from_ns(300), kAllRows).end == from_ns(600));
  CHECK(t.level(from_ns(600)) == 1);   // 60 % busy before
  CHECK(t.level(from_ns(1600)) == 0);  // nothing since
  // Crossing a flip: 100 ns at full rate up to 1600, the rest at half.
  CHECK(t.finish(from_ns(1500), from_ns(150), kAllRows).end == from_ns(1700));
}

// The time of 10 ns of work behind a window of 1000 ns in which `rows` of 128 were busy for 600.
double takes_after(const ThrottleConfig& config, double rows) {
  Throttle t(config);
  t.begin(0);
  const std::array<Activity, 1> active = {{{.from = 0, .weight = t.activity(rows, 128)}}};
  CHECK(t.finish(0, from_ns(300), active).end == from_ns(600));
  return to_ns(t.finish(from_ns(600), from_ns(10), {}).end - from_ns(600));
}

TEST_CASE("between the rows that were measured the limit lifts by and by") {
  ThrottleConfig c = config(true).throttle;
  // 60 % of a window by rows / 128, of 50 required: a cliff between 106 and 107 rows.
  CHECK(takes_after(c, 106) == 20);
  CHECK(takes_after(c, 107) == 10);
  c.known_rows = 32;
  CHECK(takes_after(c, 64) == 20);
  CHECK(takes_after(c, 128) == 10);
  // 96 rows are as likely 64 (30 %) as 128 (60 %): half of the time between both.
  CHECK(takes_after(c, 96) == 15);
  CHECK(takes_after(c, 80) == 17.5);
  for (int rows = 1; rows < 128; ++rows) {
    CHECK(takes_after(c, rows + 1) <= takes_after(c, rows));
    CHECK(takes_after(c, rows + 1) >= takes_after(c, rows) / 1.02);
  }
}

TEST_CASE("within the doubt of its threshold the limit lifts by and by") {
  ThrottleConfig c = config(true).throttle;
  c.rise_doubt = 0.2;  // 50 % +- 20
  Throttle t(c);
  t.begin(0);
  CHECK(t.finish(0, from_ns(300), kAllRows).end == from_ns(600));
  CHECK(t.level(from_ns(600)) == Approx(0.75));  // 60 % busy
  // Rates of 1 and 0.5: 100 ns take 100 or 200, and by the level 125.
  const Stretch next = t.finish(from_ns(600), from_ns(100), kAllRows);
  CHECK(next.end == from_ns(725));
  CHECK(next.sooner == from_ns(25));
  CHECK(next.later == from_ns(75));
  // 12.5 % of that window is below `fall`, for which there is no doubt.
  CHECK(t.level(from_ns(1600)) == 0);
}

TEST_CASE("less activity keeps full clock than is needed to reach it") {
  const Config c = config(true);
  Throttle t(c.throttle);
  t.begin(0);
  CHECK(t.finish(0, from_ns(200), kAllRows).end == from_ns(400));
  CHECK(t.level(from_ns(600)) == 0);  // 40 % does not lift it
  CHECK(t.finish(from_ns(600), from_ns(250), kAllRows).end == from_ns(1100));
  CHECK(t.level(from_ns(1600)) == 1);  // 50 % does
  CHECK(t.finish(from_ns(1600), from_ns(300), kAllRows).end == from_ns(1900));
  CHECK(t.level(from_ns(2600)) == 1);  // 30 % keeps it so
  CHECK(t.finish(from_ns(2600), from_ns(299), kAllRows).end == from_ns(2899));
  CHECK(t.level(from_ns(3600)) == 0);  // 29.9 % does not
  CHECK(t.level(from_ns(1'000'000)) == 0);
}

TEST_CASE("throttling counts the activity of the same rows once") {
  const Config c = config(true);
  Throttle t(c.throttle);
  t.begin(0);
  CHECK(t.finish(0, from_ns(200), kAllRows).end == from_ns(400));
  const std::array<Activity, 1> later = {{{.from = from_ns(400), .weight = {1, 1, 1}}}};
  // 300 ns of parallel work, to 600 ns at half rate, is new from 400 ns on: 60 % in all.
  CHECK(t.finish(0, from_ns(300), later).end == from_ns(600));
  CHECK(t.level(from_ns(600)) == 1);
  CHECK(t.finish(from_ns(600), from_ns(290), later).end == from_ns(890));
  CHECK(t.finish(from_ns(700), from_ns(190),
                 std::array<Activity, 1>{{{.from = from_ns(890), .weight = {1, 1, 1}}}})
            .end == from_ns(890));
  CHECK(t.level(from_ns(1600)) == 0);  // 29 %, not 48
}

TEST_CASE("a cell of the PE array that is used in part counts as a whole") {
  const auto machine = config(false);  // the array keeps a reference
  const auto multiply_on = [&](int rows) {
    Array array(machine);
    array.run(load(0, rows), cost(8, 0), 0);
    // Weights at 8 ns, then the bubble: streams from 11 to 523 ns.
    array.run(multiply(0, rows), cost(512, 0), from_ns(8));
    std::vector<double> earliest;  // of a multiply on each row of cells
    for (int row = 0; row < 128; row += 32) {
      earliest.push_back(to_ns(array.earliest(multiply(row, 32), from_ns(10))));
    }
    return earliest;
  };
  const double busy = 523 - 8, free = 10;
  CHECK(multiply_on(32) == std::vector<double>{busy, free, free, free});
  CHECK(multiply_on(40) == std::vector<double>{busy, busy, free, free});
  CHECK(multiply_on(100) == std::vector<double>{busy, busy, busy, busy});
}

TEST_CASE("columns, too, are taken by whole cells") {
  const auto machine = config(false);
  Array array(machine);
  isa::Part narrow = multiply();
  narrow.columns = 33;
  array.run(narrow, cost(512, 0), 0);  // streams from 3 to 515 ns
  isa::Part next = multiply();
  next.columns = 32;
  next.column_start = 32;
  CHECK(array.earliest(next, 0) == from_ns(515 - 8));
  next.column_start = 64;
  CHECK(array.earliest(next, 0) == 0);
}

TEST_CASE("the least time of a short multiply covers the bubble") {
  const auto machine = config(false);
  for (const auto& [padding, waits] : {std::pair(0, 3), std::pair(2, 1), std::pair(50, 0)}) {
    Array array(machine);
    (void)array.run(load(), cost(32, 76), array.earliest(load(), 0));
    Cost c = cost(64, 157);
    c.padding = from_ns(padding);
    const auto m = array.run(multiply(), c, array.earliest(multiply(), from_ns(2)));
    CHECK(m.busy_from == from_ns(32 + waits));
    CHECK(m.busy_to == from_ns(32 + waits + 64));
  }
}

TEST_CASE("the gaps of a matmul in a throttled window are the throttled ones") {
  const auto machine = config(true);
  Array array(machine);
  // The first window, to 600 ns, is slow: 32 ns of weights take 64.
  array.run(load(), cost(32, 0), 0);
  const auto m = array.run(multiply(), cost(300, 0), from_ns(64));
  CHECK(m.busy_from == from_ns(64 + 5));
  // To 600 ns, 531 ns at half rate: 265.5 of the 300. More than half of the window was busy, so the
  // next one is fast and the remaining 34.5 take their time.
  CHECK(m.busy_to == from_ns(600 + 34.5));
  CHECK(m.throttled == from_ns(600 + 34.5 - 69 - 300));
  CHECK(array.earliest(load(), from_ns(10)) == from_ns(69 - 47));
  CHECK(array.earliest(multiply(), from_ns(560)) == from_ns(634.5 - 47));
  CHECK(array.earliest(multiply(), from_ns(610)) == from_ns(634.5 - 8));
  const auto next = array.run(multiply(), cost(10, 0), from_ns(626.5));
  CHECK(next.busy_from == from_ns(634.5 + 3));  // a fast window's bubble
}

TEST_CASE("a multiply counts with the rows that it uses, and these count once") {
  const auto machine = config(true);
  // 580 ns of the first window's 1000, on so many rows each; what 10 ns take in the next window
  const auto next_takes = [&](std::initializer_list<isa::Part> parts) {
    Array array(machine);
    for (const isa::Part& part : parts) array.run(part, cost(290, 0), 0);
    const auto m = array.run(multiply(), cost(10, 0), from_ns(610));
    return to_ns(m.busy_to - m.busy_from);
  };
  isa::Part left = multiply(), right = multiply();
  left.columns = right.columns = 64;
  right.column_start = 64;
  CHECK(next_takes({multiply(0, 128)}) == 10);                   // 58 %
  CHECK(next_takes({multiply(0, 64)}) == 20);                    // 29 %
  CHECK(next_takes({multiply(0, 64), multiply(64, 64)}) == 10);  // 58 %
  CHECK(next_takes({multiply(0, 64), multiply(64, 32)}) == 20);  // 43.5 %
  CHECK(next_takes({multiply(0, 100)}) == 20);                   // 45.3 %: rows, not cells
  CHECK(next_takes({left, right}) == 10);                        // 58 %
  left.rows = right.rows = 64;
  CHECK(next_takes({left, right}) == 20);  // the same 64 rows: 29 %
}

TEST_CASE("loading weights is no activity that ends throttling") {
  const auto machine = config(true);
  Array array(machine);
  array.run(load(), cost(290, 0), 0);  // 580 of the window's 600 ns, at half rate
  const auto m = array.run(multiply(), cost(100, 0), from_ns(610));
  CHECK(m.busy_to - m.busy_from == from_ns(200));
}

TEST_CASE("an array smaller than a cell is one cell, and a larger one is not throttled more") {
  Config small = config(false);
  small.pe_rows = small.pe_columns = 16;
  Array one(small);
  const auto l = one.run(load(0, 16), cost(16, 76), 0);
  const auto m = one.run(multiply(0, 16), cost(512, 157), l.busy_to);
  CHECK(m.busy_from == from_ns(16 + 3));  // waits for its weights

  Config as_it_is = config(true), large = config(true);
  large.pe_rows = large.pe_columns = 256;
  Array a(as_it_is), b(large);
  Fs at_a = 0, at_b = 0;
  for (int i = 0; i < 8; ++i) {
    at_a = a.run(multiply(), cost(512, 0), a.earliest(multiply(), at_a)).busy_to;
    at_b = b.run(multiply(), cost(512, 0), b.earliest(multiply(), at_b)).busy_to;
  }
  CHECK(at_a == at_b);
}
