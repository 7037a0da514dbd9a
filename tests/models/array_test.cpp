#include "models/array.hpp"

#include <catch2/catch.hpp>

using namespace nkisim;
using namespace nkisim::models;

namespace {

// Round figures: 1 GHz, so a cycle is 1 ns.
Config config(bool throttled) {
  Config c;
  c.array = {.lead = from_ns(8), .lead_throttled = from_ns(47), .bubble = from_ns(3), .tile = 32};
  c.throttle = {.enabled = throttled,
                .window = from_ns(1000),
                .threshold = 0.5,
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

TEST_CASE("the limit lifts after a busy window and returns after an idle one") {
  const Config c = config(true);
  Throttle t(c.throttle);
  t.begin(0);
  // Windows: [-400, 600) slow, then by activity. 300 ns of work from 0 takes 600 ns at half rate.
  CHECK(t.rate(0) == 0.5);
  CHECK(t.finish(0, from_ns(300), true) == from_ns(600));
  CHECK(t.rate(from_ns(600)) == 1);     // 60 % busy before
  CHECK(t.rate(from_ns(1600)) == 0.5);  // nothing since
  // Crossing a flip: 100 ns at full rate up to 1600, the rest at half.
  CHECK(t.finish(from_ns(1500), from_ns(150), true) == from_ns(1700));
}
