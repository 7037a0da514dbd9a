// Tests that the compiler keeps the order that a kernel asks for (with_schedule, depends_on).
// Random programs are compared with a search for cycles, others are worked out by hand.
#include "compiler/passes/edges.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <map>

#include "compiler/passes/schedule.hpp"
#include "isa/program/ordering.hpp"
#include "src/config/config_json.hpp"
#include "tests/support/random_program.hpp"

using namespace nkisim;
using isa::Dtype;
using isa::Engine;
using PB = test::ProgramBuilder;
using Catch::Matchers::Contains;

namespace {

using Order = std::vector<std::size_t>;

compiler::PassResult run_edges(isa::Program& program) {
  compiler::Unit unit{program, {}, {}, [] { return load_config("trn3"); }};
  return compiler::edges(unit);
}

// Remembers a program's order: its arguments stay where they are. Equal instructions, which share
// them, write the same bytes and so keep their order.
class Numbers {
 public:
  explicit Numbers(const isa::Program& program) : program_(program) {
    for (const isa::Inst& inst : program.insts()) {
      numbers_[inst.args.data()].push_back(count_++);
    }
  }
  /// The instructions by their numbers then, in the order of now.
  [[nodiscard]] Order now() const {
    Order out;
    std::map<const isa::Arg*, std::size_t> seen;
    for (const isa::Inst& inst : program_.insts()) {
      out.push_back(numbers_.at(inst.args.data()).at(seen[inst.args.data()]++));
    }
    return out;
  }

 private:
  const isa::Program& program_;
  std::map<const isa::Arg*, std::vector<std::size_t>> numbers_;
  std::size_t count_ = 0;
};

struct Graph {
  std::vector<std::set<std::size_t>> before;  // by instruction: those it follows
  [[nodiscard]] bool circle() const {
    std::vector<int> state(before.size(), 0);
    const std::function<bool(std::size_t)> visit = [&](std::size_t i) {
      if (state[i] != 0) return state[i] == 1;
      state[i] = 1;
      const bool found = std::any_of(before[i].begin(), before[i].end(), visit);
      state[i] = 2;
      return found;
    };
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (visit(i)) return true;
    }
    return false;
  }
  [[nodiscard]] bool kept(const Order& order) const {
    std::vector<std::size_t> place(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) place[order[k]] = k;
    for (std::size_t i = 0; i < before.size(); ++i) {
      for (const std::size_t b : before[i]) {
        if (place[b] >= place[i]) return false;
      }
    }
    return true;
  }
};

// The edges that bytes and reduce registers require.
Graph required(const isa::Program& program) {
  Graph graph{std::vector<std::set<std::size_t>>(program.insts().size())};
  for (const auto& [i, j] : test::conflicts(program)) graph.before[j].insert(i);
  std::size_t last = program.insts().size();
  for (std::size_t i = 0; i < program.insts().size(); ++i) {
    if (program.insts()[i].op != isa::Op::k_activation) continue;
    if (last < i) graph.before[i].insert(last);
    last = i;
  }
  return graph;
}

// memset of tiles 0 to n - 1, on VectorE.
struct Clears {
  PB b;
  std::vector<std::uint32_t> tiles;
  explicit Clears(int count) {
    for (int i = 0; i < count; ++i) {
      tiles.push_back(b.sbuf("t" + std::to_string(i), Dtype::kFloat32, {128, 8}));
      clear(i);
    }
  }
  void clear(int i) {
    b.op("memset",
         {{"dst", PB::arg(b.all(tiles[static_cast<std::size_t>(i)]))}, {"value", PB::arg(1.0)}},
         Engine::kVector);
  }
};

}  // namespace

TEST_CASE("random orders are kept, or refused as cycles", "[edges]") {
  int circles = 0, moved = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    INFO("seed " << seed);
    test::RandomProgram random(seed, 40);
    isa::Program& program = random.b.program();
    Graph graph = required(program);
    const auto expected = random.result();
    for (int n = 1 + random.pick(4); n > 0; --n) {
      const auto later = static_cast<std::size_t>(random.pick(40));
      const auto earlier = static_cast<std::size_t>(random.pick(40));
      program.order_after(later, earlier);
      graph.before[later].insert(earlier);
    }
    const Numbers numbers(program);
    if (graph.circle()) {
      ++circles;
      REQUIRE_THROWS_WITH(run_edges(program), Contains("circle"));
      continue;
    }
    const compiler::PassResult done = run_edges(program);
    CHECK(done.changed > 0);
    const Order order = numbers.now();
    moved += std::is_sorted(order.begin(), order.end()) ? 0 : 1;
    REQUIRE(graph.kept(order));
    program.reorder(compiler::schedule(program, load_config("trn3")).order);
    REQUIRE(graph.kept(numbers.now()));
    const bool same = random.result() == expected;
    REQUIRE(same);
  }
  CHECK(circles > 10);
  CHECK(moved > 10);
}

TEST_CASE("only the instructions that an order needs are moved", "[edges]") {
  Clears five(5);
  five.b.program().order_after(1, 3);
  const Numbers numbers(five.b.program());
  const compiler::PassResult done = run_edges(five.b.program());
  CHECK(numbers.now() == Order{0, 2, 3, 1, 4});
  CHECK(done.changed == 1);
  CHECK(done.text == "1 instructions moved behind later ones");
}

TEST_CASE("an order asked for twice is one dependence", "[edges]") {
  Clears two(2);
  two.b.program().order_after(1, 0);
  two.b.program().order_after(1, 0);
  CHECK(run_edges(two.b.program()).changed == 1);
  CHECK(two.b.program().ordering(two.b.program().insts()[1]).after ==
        std::vector<std::uint32_t>{1});
}

TEST_CASE("the list scheduler lets a follower wait for completion", "[edges]") {
  // Loads are issued as they come; one that is to follow VectorE's clear of another tile comes
  // last.
  const auto loads = [](bool ordered) {
    PB b;
    const auto x = b.hbm("x", Dtype::kFloat32, {128, 4096});
    std::vector<std::uint32_t> tiles;
    for (int i = 0; i < 3; ++i) {
      tiles.push_back(b.sbuf("t" + std::to_string(i), Dtype::kFloat32, {128, 4096}));
    }
    const auto other = b.sbuf("other", Dtype::kFloat32, {128, 4096});
    b.op("memset", {{"dst", PB::arg(b.all(other))}, {"value", PB::arg(1.0)}}, Engine::kVector);
    for (const auto t : tiles) {
      b.op("dma_copy", {{"dst", PB::arg(b.all(t))}, {"src", PB::arg(b.all(x))}}, Engine::kSync);
    }
    if (ordered) b.program().order_after(1, 0);
    return compiler::schedule(b.program(), load_config("trn2")).order;
  };
  CHECK(loads(false) == std::vector<std::uint32_t>{0, 1, 2, 3});
  CHECK(loads(true) == std::vector<std::uint32_t>{0, 2, 3, 1});
}

TEST_CASE("passes leave an ordered instruction as it is", "[edges]") {
  Clears two(2);
  isa::Program& program = two.b.program();
  CHECK_FALSE(program.insts()[0].pinned());
  program.order_after(1, 0);
  CHECK(program.insts()[0].pinned());
  CHECK(program.insts()[1].pinned());
}
