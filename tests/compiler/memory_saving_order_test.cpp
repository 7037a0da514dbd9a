// Tests the compiler pass that reorders a program so that it needs less memory: on cases worked out
// by hand, and on random programs against the untimed run and a recount of the live tiles.
#include "compiler/passes/memory_saving_order.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using compiler::Delay;
using compiler::memory_saving_order;
using isa::Dtype;
using isa::Engine;
using isa::Uses;
using PB = test::ProgramBuilder;

namespace {

using Order = std::vector<std::uint32_t>;
constexpr Delay kDelays[] = {Delay::kNone, Delay::kSources, Delay::kAll, Delay::kSpread};

std::vector<bool> nothing_placed(const isa::Program& program) {
  return std::vector<bool>(program.tensors().size(), false);
}

// The most bytes per partition that live at once: from a tensor's first to its last use.
std::int64_t peak(const isa::Program& program, isa::Space space) {
  std::map<std::uint32_t, std::pair<std::size_t, std::size_t>> lives;
  for (std::size_t i = 0; i < program.insts().size(); ++i) {
    isa::for_each_tensor(program.insts()[i],
                         [&](const isa::TensorRef& ref, const isa::Param&, bool) {
                           if (ref.space != space) return;
                           lives.emplace(ref.tensor, std::pair{i, i}).first->second.second = i;
                         });
  }
  std::int64_t most = 0;
  for (std::size_t i = 0; i < program.insts().size(); ++i) {
    std::int64_t now = 0;
    for (const auto& [t, life] : lives) {
      if (life.first <= i && i <= life.second) now += program.tensor(t).extent_bytes();
    }
    most = std::max(most, now);
  }
  return most;
}

struct Builder : PB {
  Builder() { program().set_virtual_addresses(true); }
  std::uint32_t tile(const std::string& name, std::int64_t columns = 1024) {
    return sbuf(name, Dtype::kFloat32, {128, columns});
  }
  void load(std::uint32_t to, std::uint32_t from) {
    op("dma_copy", {{"dst", arg(all(to))}, {"src", arg(all(from))}}, Engine::kSync);
  }
  void store(std::uint32_t to, std::uint32_t from) { load(to, from); }
  void add(std::uint32_t to, std::uint32_t a, std::uint32_t b) {
    op("tensor_tensor",
       {{"dst", arg(all(to))},
        {"data1", arg(all(a))},
        {"data2", arg(all(b))},
        {"op", arg(isa::AluOp::kAdd)}},
       Engine::kVector);
  }
};

}  // namespace

TEST_CASE("loads wait for their first use", "[memory_saving_order]") {
  // Three loads, then each is added to a sum: 0 1 2 | 3 4 5. In program order four tiles live at
  // once (s, a, b, c), with each load before its use two.
  Builder b;
  const auto x = b.hbm("x", Dtype::kFloat32, {128, 1024});
  const auto s = b.tile("s");
  std::vector<std::uint32_t> tiles;
  for (const char* name : {"a", "b", "c"}) tiles.push_back(b.tile(name));
  for (const std::uint32_t t : tiles) b.load(t, x);
  b.add(s, tiles[0], tiles[0]);
  b.add(s, s, tiles[1]);
  b.add(s, s, tiles[2]);
  CHECK(peak(b.program(), isa::Space::kSbuf) == 4 * 4096);
  const auto none = nothing_placed(b.program());
  CHECK(memory_saving_order(b.program(), none, Uses(b.program()), Delay::kNone) ==
        Order{0, 3, 1, 4, 2, 5});
  const Order sunk = memory_saving_order(b.program(), none, Uses(b.program()), Delay::kSources);
  CHECK(sunk == Order{0, 3, 1, 4, 2, 5});
  b.program().reorder(sunk);
  CHECK(peak(b.program(), isa::Space::kSbuf) == 2 * 4096);
}

TEST_CASE("instructions that free memory go first", "[memory_saving_order]") {
  // p = in + in, q = in + p, r = p + p, and each is stored (to the same bytes: in this order).
  // 0 load in, 1 p, 2 r, 3 q, 4 store p, 5 store q, 6 store r. After 1 the store of p begins
  // nothing: 4. q takes as much as `in` leaves: 3, ahead of r; q can leave: 5. Now r is p's last
  // reader: 2, 6. Three tiles at once (in, p, q), not four.
  Builder b;
  const auto x = b.hbm("x", Dtype::kFloat32, {128, 1024});
  const auto out = b.hbm("out", Dtype::kFloat32, {128, 1024});
  const auto in = b.tile("in"), p = b.tile("p"), q = b.tile("q"), r = b.tile("r");
  b.load(in, x);
  b.add(p, in, in);
  b.add(r, p, p);
  b.add(q, in, p);
  b.store(out, p);
  b.store(out, q);
  b.store(out, r);
  CHECK(peak(b.program(), isa::Space::kSbuf) == 4 * 4096);
  const Order order = memory_saving_order(b.program(), nothing_placed(b.program()),
                                          Uses(b.program()), Delay::kNone);
  CHECK(order == Order{0, 1, 4, 3, 5, 2, 6});
  b.program().reorder(order);
  CHECK(peak(b.program(), isa::Space::kSbuf) == 3 * 4096);
}

TEST_CASE("sums that share an operand spread over PSUM", "[memory_saving_order]") {
  // 4 sums over 3 weights, sum after sum: program order needs every weight at once. Begun side by
  // side they use up one weight after the other. With more sums than banks only as many begin.
  Builder b;
  const auto x = b.hbm("x", Dtype::kBfloat16, {128, 512});
  const auto rows = b.sbuf("rows", Dtype::kBfloat16, {128, 128});
  b.op("memset", {{"dst", PB::arg(b.all(rows))}, {"value", PB::arg(1.0)}}, Engine::kVector);
  std::vector<std::uint32_t> weights, sums;
  for (int k = 0; k < 3; ++k) {
    weights.push_back(b.sbuf("w" + std::to_string(k), Dtype::kBfloat16, {128, 512}));
    b.load(weights.back(), x);
  }
  const auto out = b.sbuf("out", Dtype::kFloat32, {128, 1});
  for (int i = 0; i < 4; ++i) {
    sums.push_back(b.psum("p" + std::to_string(i), Dtype::kFloat32, {128, 512}));
    for (const std::uint32_t w : weights) {
      b.op("nc_matmul", {{"dst", PB::arg(b.all(sums.back()))},
                         {"stationary", PB::arg(b.all(rows))},
                         {"moving", PB::arg(b.all(w))}});
    }
    b.op("tensor_copy",
         {{"dst", PB::arg(b.all(out))}, {"src", PB::arg(b.view(sums.back(), {{1, 1}}))}},
         Engine::kVector);
  }
  const std::int64_t rest = 2 * 128 + 4;  // rows, out
  CHECK(peak(b.program(), isa::Space::kSbuf) == 3 * 1024 + rest);
  b.program().reorder(memory_saving_order(b.program(), nothing_placed(b.program()),
                                          Uses(b.program()), Delay::kSpread));
  CHECK(peak(b.program(), isa::Space::kSbuf) <= 1024 + rest);
  CHECK(peak(b.program(), isa::Space::kPsum) == 4 * 2048);
}

TEST_CASE("a small load that lets a large tile end comes at once", "[memory_saving_order]") {
  // Sum i is r_i (256 bytes) times w0 + w1 + w2 (1024 bytes each), sum after sum. With r0 and w0
  // there, loading r1 begins 256 bytes and lets w0 end, 1024; loading w1 to end r0 would begin
  // 1024 for 256. So w0's readers go first, and one weight is there at a time.
  Builder b;
  const auto x = b.hbm("x", Dtype::kBfloat16, {128, 512});
  const auto y = b.hbm("y", Dtype::kBfloat16, {128, 128});
  std::vector<std::uint32_t> rows, weights;
  for (int i = 0; i < 2; ++i) {
    rows.push_back(b.sbuf("r" + std::to_string(i), Dtype::kBfloat16, {128, 128}));
    b.load(rows.back(), y);
  }
  for (int k = 0; k < 3; ++k) {
    weights.push_back(b.sbuf("w" + std::to_string(k), Dtype::kBfloat16, {128, 512}));
    b.load(weights.back(), x);
  }
  for (const std::uint32_t r : rows) {
    const auto sum = b.psum("p" + std::to_string(r), Dtype::kFloat32, {128, 512});
    for (const std::uint32_t w : weights) {
      b.op("nc_matmul", {{"dst", PB::arg(b.all(sum))},
                         {"stationary", PB::arg(b.all(r))},
                         {"moving", PB::arg(b.all(w))}});
    }
  }
  // 0 1 load r, 2 3 4 load w, 5 6 7 the first sum, 8 9 10 the second.
  const Order order = memory_saving_order(b.program(), nothing_placed(b.program()),
                                          Uses(b.program()), Delay::kSpread);
  CHECK(order == Order{0, 2, 5, 1, 8, 3, 6, 9, 4, 7, 10});
  b.program().reorder(order);
  CHECK(peak(b.program(), isa::Space::kSbuf) == 2 * 256 + 1024);
}

TEST_CASE("PSUM is not overfilled by sums that could begin", "[memory_saving_order]") {
  // 12 sums of one bank each could all begin at once; PSUM has 8 banks.
  Builder b;
  const auto rows = b.sbuf("rows", Dtype::kBfloat16, {128, 128});
  const auto more = b.sbuf("more", Dtype::kBfloat16, {128, 512});
  for (const std::uint32_t t : {rows, more}) {
    b.op("memset", {{"dst", PB::arg(b.all(t))}, {"value", PB::arg(1.0)}}, Engine::kVector);
  }
  const auto out = b.sbuf("out", Dtype::kFloat32, {128, 1});
  for (int i = 0; i < 12; ++i) {
    const auto sum = b.psum("p" + std::to_string(i), Dtype::kFloat32, {128, 512});
    b.op("nc_matmul", {{"dst", PB::arg(b.all(sum))},
                       {"stationary", PB::arg(b.all(rows))},
                       {"moving", PB::arg(b.all(more))}});
    b.op("tensor_copy", {{"dst", PB::arg(b.all(out))}, {"src", PB::arg(b.view(sum, {{1, 1}}))}},
         Engine::kVector);
  }
  b.program().reorder(memory_saving_order(b.program(), nothing_placed(b.program()),
                                          Uses(b.program()), Delay::kSpread));
  CHECK(peak(b.program(), isa::Space::kPsum) <= b.program().machine().psum_partition_bytes);
}

namespace {

// Random loads, sums and stores of tiles of several sizes; every tile is written before it is read,
// some are written again.
struct Random {
  Builder b;
  std::mt19937 random;
  std::vector<std::uint32_t> hbm, tiles, live;

  explicit Random(unsigned seed, int count) : random(seed) {
    for (int i = 0; i < 3; ++i) {
      hbm.push_back(b.hbm("h" + std::to_string(i), Dtype::kFloat32, {128, 64}));
    }
    for (int i = 0; i < count; ++i) instruction();
  }
  int pick(std::size_t n) {
    return std::uniform_int_distribution<int>(0, static_cast<int>(n) - 1)(random);
  }
  std::uint32_t some(const std::vector<std::uint32_t>& from) {
    return from[static_cast<std::size_t>(pick(from.size()))];
  }
  std::uint32_t target() {
    if (!live.empty() && pick(4) == 0) return some(live);
    tiles.push_back(b.tile("t" + std::to_string(tiles.size()), 64));
    return tiles.back();
  }
  const isa::TensorRef* part(std::uint32_t t) {  // the lower, the upper half, or both
    const int which = pick(3);
    return b.view(t, {{1, which == 2 ? 64 : 32}}, which == 1 ? 32 : 0);
  }
  void instruction() {
    const int kind = live.size() < 2 ? 0 : pick(4);
    if (kind == 0) {
      const auto to = target();
      b.load(to, some(hbm));
      live.push_back(to);
    } else if (kind == 3) {
      b.store(some(hbm), some(live));
    } else {
      const auto from = some(live), other = some(live);
      const auto to = target();
      if (kind == 1) {
        b.add(to, from, other);
        live.push_back(to);
      } else {
        b.op("activation", {{"dst", PB::arg(b.all(from))},
                            {"op", PB::arg(isa::ActFn::kCopy)},
                            {"data", PB::arg(b.all(other))},
                            {"reduce_cmd", PB::choice(2)},
                            {"reduce_res", PB::arg(b.view(from, {{1, 1}}))}});
      }
    }
  }
  std::vector<std::vector<std::byte>> result() {  // what HBM holds afterwards
    isa::Memory memory(b.program());
    for (std::size_t h = 0; h < hbm.size(); ++h) {
      std::vector<float> values(128 * 64);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>((i * (h + 3)) % 251);
      }
      memory.load(hbm[h], std::as_bytes(std::span(values)));
    }
    isa::InterpretOptions options;
    options.conditions.unwritten = isa::Unwritten::kAllow;
    isa::interpret(b.program(), memory, options);
    std::vector<std::vector<std::byte>> all;
    for (const std::uint32_t h : hbm) all.push_back(memory.read(h));
    return all;
  }
};

}  // namespace

TEST_CASE("a random program computes the same in every memory-saving order",
          "[memory_saving_order]") {
  int smaller = 0;
  for (unsigned seed = 1; seed <= 30; ++seed) {
    for (const Delay delay : kDelays) {
      INFO("seed " << seed << ", delay " << static_cast<int>(delay));
      Random program(seed, 150);
      isa::Program& p = program.b.program();
      const auto expected = program.result();
      const std::int64_t before = peak(p, isa::Space::kSbuf);
      Order order = memory_saving_order(p, nothing_placed(p), Uses(p), delay);
      p.reorder(order);
      const bool same = program.result() == expected;  // not printed: thousands of bytes
      REQUIRE(same);
      smaller += peak(p, isa::Space::kSbuf) < before ? 1 : 0;
      std::sort(order.begin(), order.end());
      for (std::uint32_t i = 0; i < order.size(); ++i) REQUIRE(order[i] == i);
    }
  }
  CHECK(smaller > 30);
}

TEST_CASE("memory-saving orders leave control flow and semaphores in place",
          "[memory_saving_order]") {
  Builder b;
  const auto x = b.hbm("x", Dtype::kFloat32, {128, 1024});
  const auto s = b.tile("s"), t = b.tile("t");
  b.load(t, x);
  b.op("loop_begin", {{"register", PB::reg(0)}, {"start", PB::arg(0)}, {"stop", PB::arg(2)}});
  b.add(s, t, t);
  b.op("loop_end", {});
  b.store(x, s);
  for (const Delay delay : kDelays) {
    CHECK(memory_saving_order(b.program(), nothing_placed(b.program()), Uses(b.program()), delay) ==
          Order{0, 1, 2, 3, 4});
  }
}
