// Tests the list scheduler: moves worked out by hand, and random programs whose values must not
// change, compared with an untimed run and with the bytes that instructions touch.
#include "compiler/passes/schedule.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "src/config/config_json.hpp"
#include "tests/support/random_program.hpp"

using namespace nkisim;
using compiler::schedule;
using isa::Dtype;
using isa::Engine;
using isa::Space;
using PB = test::ProgramBuilder;

namespace {

const models::Config& trn2() {
  static const models::Config config = load_config("trn2");
  return config;
}

const models::Config& trn3() {  // products may add to what any engine wrote
  static const models::Config config = load_config("trn3");
  return config;
}

using Order = std::vector<std::uint32_t>;

Order in_order(std::size_t n) {
  Order order(n);
  for (std::uint32_t i = 0; i < n; ++i) order[i] = i;
  return order;
}

// Two tiles through load, copy, store. `spare`: buffers per stage.
struct Pipeline {
  PB b;
  explicit Pipeline(int steps, int spare) {
    const auto x = b.hbm("x", Dtype::kFloat32, {128L * steps, 512});
    const auto y = b.hbm("y", Dtype::kFloat32, {128L * steps, 512});
    std::vector<std::uint32_t> in, out;
    for (int i = 0; i < spare; ++i) {
      in.push_back(b.sbuf("in" + std::to_string(i), Dtype::kFloat32, {128, 512}));
      out.push_back(b.sbuf("out" + std::to_string(i), Dtype::kFloat32, {128, 512}));
    }
    for (int i = 0; i < steps; ++i) {
      const auto s = static_cast<std::size_t>(i % spare);
      const auto rows = [&](std::uint32_t t) {
        return b.view(t, {{512, 128}, {1, 512}}, 128L * 512 * i);
      };
      b.op("dma_copy", {{"dst", PB::arg(b.all(in[s]))}, {"src", PB::arg(rows(x))}}, Engine::kSync);
      b.op("tensor_copy", {{"dst", PB::arg(b.all(out[s]))}, {"src", PB::arg(b.all(in[s]))}},
           Engine::kVector);
      b.op("dma_copy", {{"dst", PB::arg(rows(y))}, {"src", PB::arg(b.all(out[s]))}}, Engine::kSync);
    }
  }
};

}  // namespace

TEST_CASE("meetings of two cores keep their order", "[schedule]") {
  // The first exchange of core 0 waits for a long computation, the second could go at once; core 1
  // comes to both in the program's order.
  PB b;
  std::vector<std::uint32_t> meetings;
  for (const std::uint8_t core : {std::uint8_t{0}, std::uint8_t{1}}) {
    const std::string tag = std::to_string(core);
    const auto tile = [&](const char* name, std::int64_t columns) {
      return b.tensor(name + tag, Space::kSbuf, Dtype::kFloat32, {128, columns}, 0, core);
    };
    const auto late = tile("late", 4096), soon = tile("soon", 16);
    for (const auto t : {soon, late}) {
      b.op("memset", {{"dst", PB::arg(b.all(t))}, {"value", PB::arg(1.0)}}, Engine::kVector, core);
    }
    for (const auto& [sent, name] : {std::pair(late, "a"), std::pair(soon, "b")}) {
      const auto got = tile(name, sent == late ? 4096 : 16);
      meetings.push_back(static_cast<std::uint32_t>(b.program().insts().size()));
      b.op("sendrecv",
           {{"src", PB::arg(b.all(sent))},
            {"dst", PB::arg(b.all(got))},
            {"send_to_rank", PB::arg(1 - core)},
            {"recv_from_rank", PB::arg(1 - core)},
            {"pipe_id", PB::arg(0)}},
           Engine::kAny, core);
    }
  }
  const auto order = schedule(b.program(), trn2()).order;
  std::vector<std::uint32_t> kept;
  std::copy_if(order.begin(), order.end(), std::back_inserter(kept), [&](std::uint32_t i) {
    return std::find(meetings.begin(), meetings.end(), i) != meetings.end();
  });
  CHECK(kept == meetings);
}

TEST_CASE("a load overtakes the store of the step before", "[schedule]") {
  // load 0, load 1 (before store 0, which waits for copy 0), copy 0, store 0, copy 1, store 1.
  Pipeline two(2, 2);
  const auto result = schedule(two.b.program(), trn2());
  CHECK(result.order == Order{0, 3, 1, 2, 4, 5});
  CHECK(result.moved == 1);
}

TEST_CASE("with one buffer no load moves", "[schedule]") {
  Pipeline one(3, 1);
  const auto result = schedule(one.b.program(), trn2());
  // Load i + 1 waits for copy i, and is then older than nothing on its queue but store i.
  const auto at = [&](std::uint32_t n) {
    return std::find(result.order.begin(), result.order.end(), n) - result.order.begin();
  };
  CHECK(at(1) < at(3));
  CHECK(at(4) < at(6));
}

TEST_CASE("if no instruction is ready, the one that is ready first goes first", "[schedule]") {
  // ScalarE knows of its first copy alone when the load is issued; the memset that is issued then
  // ends sooner, and so the second copy goes first.
  PB b;
  const auto x = b.hbm("x", Dtype::kFloat32, {128, 512});
  const auto late = b.sbuf("late", Dtype::kFloat32, {128, 512});
  const auto soon = b.sbuf("soon", Dtype::kFloat32, {128, 512});
  b.op("dma_copy", {{"dst", PB::arg(b.all(late))}, {"src", PB::arg(b.all(x))}}, Engine::kSync);
  b.op("memset", {{"dst", PB::arg(b.all(soon))}, {"value", PB::arg(1.0)}}, Engine::kVector);
  for (const auto t : {late, soon}) {
    b.op("tensor_copy", {{"dst", PB::arg(b.all(t))}, {"src", PB::arg(b.all(t))}}, Engine::kScalar);
  }
  CHECK(schedule(b.program(), trn2()).order == Order{0, 1, 3, 2});
}

TEST_CASE("only what uses the reduce registers keeps its order", "[schedule]") {
  // ScalarE's first activation waits for a load, the second for a short memset.
  const auto order = [](int command, bool result) {
    PB b;
    const auto x = b.hbm("x", Dtype::kFloat32, {128, 512});
    const auto late = b.sbuf("late", Dtype::kFloat32, {128, 512});
    const auto soon = b.sbuf("soon", Dtype::kFloat32, {128, 512});
    const auto sum = b.sbuf("sum", Dtype::kFloat32, {128, 2});
    b.op("memset", {{"dst", PB::arg(b.all(soon))}, {"value", PB::arg(1.0)}}, Engine::kVector);
    b.op("dma_copy", {{"dst", PB::arg(b.all(late))}, {"src", PB::arg(b.all(x))}}, Engine::kSync);
    for (const auto t : {late, soon}) {
      const auto dst = PB::arg(b.all(t));
      const auto into = PB::arg(b.view(sum, {{1, 1}}, t == late ? 0 : 1));
      const auto op = PB::arg(isa::ActFn::kExp), cmd = PB::choice(command);
      if (result) {
        b.op("activation", {{"dst", dst}, {"op", op}, {"data", dst}, {"reduce_res", into}},
             Engine::kScalar);
      } else {
        b.op("activation", {{"dst", dst}, {"op", op}, {"data", dst}, {"reduce_cmd", cmd}},
             Engine::kScalar);
      }
    }
    return schedule(b.program(), trn2()).order;
  };
  constexpr int kIdle = 0, kReset = 1, kReduce = 2, kResetReduce = 3;
  CHECK(order(kIdle, false) == Order{0, 1, 3, 2});
  for (const int command : {kReset, kReduce, kResetReduce}) {
    CHECK(order(command, false) == in_order(4));
  }
  CHECK(order(kIdle, true) == in_order(4));
}

TEST_CASE("tiles without an address may fill SBUF and no more", "[schedule]") {
  // 8 steps of tiles of 64 KiB per partition, each with storage of its own: SBUF of trn2 (224 KiB)
  // holds 3, so load 3 must follow the last use of tile 0.
  PB b;
  b.program().set_virtual_addresses(true);
  const auto x = b.hbm("x", Dtype::kFloat32, {128 * 8, 16384});
  const auto sum = b.sbuf("sum", Dtype::kFloat32, {128, 1});
  for (int i = 0; i < 8; ++i) {
    const auto tile = b.sbuf("t" + std::to_string(i), Dtype::kFloat32, {128, 16384});
    b.op("dma_copy",
         {{"dst", PB::arg(b.all(tile))},
          {"src", PB::arg(b.view(x, {{16384, 128}, {1, 16384}}, 128L * 16384 * i))}},
         Engine::kSync);
    b.op("tensor_copy", {{"dst", PB::arg(b.all(sum))}, {"src", PB::arg(b.view(tile, {{1, 1}}))}},
         Engine::kVector);
  }
  const std::vector<bool> placed(b.program().tensors().size(), false);
  const auto result = schedule(b.program(), trn2(), {.placed = placed});
  int live = 0, most = 0;
  for (const std::uint32_t i : result.order) {
    live += i % 2 == 0 ? 1 : 0;  // a load begins a tile's life, its copy ends it
    most = std::max(most, live);
    live -= i % 2 == 1 ? 1 : 0;
  }
  CHECK(most == 3);
  const auto small = schedule(b.program(), trn2(), {.placed = placed, .share = 0.6});
  CHECK(small.order[2] == 1);  // two tiles only
}

TEST_CASE("a tile that is needed later leaves space for those needed before", "[schedule]") {
  // Tiles of 64 KiB. a is loaded; VectorE makes n and then m from it, one after the other; ScalarE
  // could clear f, which is needed last, at once. SBUF (224 KiB) holds a, n and f together, but
  // with f it would hold a and only one of n and m: m would wait for n's last use. So f follows
  // m, with which a has died.
  PB b;
  b.program().set_virtual_addresses(true);
  const auto x = b.hbm("x", Dtype::kFloat32, {128, 16384});
  const auto sum = b.sbuf("sum", Dtype::kFloat32, {128, 3});
  const auto tile = [&](const char* name) { return b.sbuf(name, Dtype::kFloat32, {128, 16384}); };
  const auto copy = [&](const isa::TensorRef* to, const isa::TensorRef* from, Engine engine) {
    b.op("tensor_copy", {{"dst", PB::arg(to)}, {"src", PB::arg(from)}}, engine);
  };
  const auto a = tile("a"), n = tile("n"), m = tile("m"), f = tile("f");
  b.op("dma_copy", {{"dst", PB::arg(b.all(a))}, {"src", PB::arg(b.all(x))}}, Engine::kSync);
  copy(b.all(n), b.all(a), Engine::kVector);
  copy(b.view(sum, {{1, 1}}, 0), b.view(n, {{1, 1}}), Engine::kGpSimd);
  copy(b.all(m), b.all(a), Engine::kVector);
  copy(b.view(sum, {{1, 1}}, 1), b.view(m, {{1, 1}}), Engine::kGpSimd);
  b.op("memset", {{"dst", PB::arg(b.all(f))}, {"value", PB::arg(1.0)}}, Engine::kGpSimd);
  copy(b.view(sum, {{1, 1}}, 2), b.view(f, {{1, 1}}), Engine::kGpSimd);
  const std::vector<bool> placed(b.program().tensors().size(), false);
  CHECK(schedule(b.program(), trn2(), {.placed = placed}).order == Order{0, 1, 3, 2, 5, 4, 6});
}

TEST_CASE("instructions are not moved across control flow, core barriers or semaphores",
          "[schedule]") {
  PB b;
  const auto x = b.hbm("x", Dtype::kFloat32, {128, 512});
  const auto s = b.sbuf("s", Dtype::kFloat32, {128, 512});
  const auto t = b.sbuf("t", Dtype::kFloat32, {128, 512});
  b.op("loop_begin", {{"register", PB::reg(0)}, {"start", PB::arg(0)}, {"stop", PB::arg(2)}});
  b.op("memset", {{"dst", PB::arg(b.all(s))}, {"value", PB::arg(1.0)}});
  b.op("loop_end", {});
  b.op("dma_copy", {{"dst", PB::arg(b.all(t))}, {"src", PB::arg(b.all(x))}});
  CHECK(schedule(b.program(), trn2()).order == in_order(4));
  Pipeline two(2, 2);
  two.b.program().set_explicit_semaphores(true);
  CHECK(schedule(two.b.program(), trn2()).order == in_order(6));
}

TEST_CASE("a scheduled random program computes the same bits", "[schedule]") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    test::RandomProgram program(seed, 300);
    const auto expected = program.result();
    const auto plan =
        schedule(program.b.program(), trn3(), {.window = seed % 2 == 0 ? 16U : 4096U});
    CHECK(plan.moved > 0);
    program.b.program().reorder(plan.order);
    const bool same = program.result() == expected;  // not printed: thousands of bytes
    REQUIRE(same);
  }
}

TEST_CASE("instructions that share bytes keep their order", "[schedule]") {
  for (unsigned seed = 100; seed < 106; ++seed) {
    INFO("seed " << seed);
    test::RandomProgram random(seed, 60);
    const isa::Program& program = random.b.program();
    const auto plan = schedule(program, trn3());
    std::vector<std::size_t> place(plan.order.size());
    for (std::size_t k = 0; k < plan.order.size(); ++k) place[plan.order[k]] = k;
    for (const auto& [i, j] : test::conflicts(program)) CHECK(place[i] < place[j]);
  }
}
