// Tests which earlier instructions an instruction must wait for, on programs worked out by hand.
#include "models/issue/dependences.hpp"

#include <catch2/catch.hpp>

#include "tests/support/program_builder.hpp"

using namespace nkisim;
using isa::Dim;
using isa::Dtype;
using isa::Engine;
using isa::Space;
using models::Edge;
using PB = test::ProgramBuilder;

namespace {

constexpr models::QueueIndex kV = 1, kS = 2, kG = 3, kDma = 5, kDma2 = 6;
constexpr auto kRaw = Edge::Kind::kReadAfterWrite;
constexpr auto kWaw = Edge::Kind::kWriteAfterWrite;
constexpr auto kWar = Edge::Kind::kWriteAfterRead;

struct Wait {
  models::QueueIndex queue;
  std::uint64_t number;
  Edge::Kind kind;
  bool operator==(const Wait&) const = default;
};

// tensor_copy instructions (dma_copy where HBM takes part) added one after the other.
struct Sequence {
  PB b;
  std::vector<models::QueueIndex> queues;
  std::vector<const isa::Inst*> insts;

  void copy(models::QueueIndex queue, const isa::TensorRef* dst, const isa::TensorRef* src) {
    const bool dma = !dst->on_chip() || !src->on_chip() || queue >= kDma;
    insts.push_back(&b.op(dma ? "dma_copy" : "tensor_copy",
                          {{"dst", PB::arg(dst)}, {"src", PB::arg(src)}},
                          dma ? Engine::kSync : static_cast<Engine>(queue)));
    queues.push_back(queue);
  }
  // The waits of the last instruction when none has finished.
  std::vector<Wait> last() {
    models::Completions completions(7);
    models::Dependences dependences(b.program(), isa::kEngineCount, completions);
    const isa::CoreState state;
    std::vector<Edge> edges;
    for (std::size_t i = 0; i < insts.size(); ++i) {
      edges.clear();
      const auto number = completions.begin(queues[i], i, 0);
      dependences.add(*insts[i], state, queues[i], number, 0, {}, edges);
    }
    std::vector<Wait> waits;
    for (const Edge& e : edges) waits.push_back({e.queue, e.number, e.kind});
    return waits;
  }
};

using Waits = std::vector<Wait>;

}  // namespace

TEST_CASE("read after write, write after write, write after read in every memory") {
  const Space space = GENERATE(Space::kSbuf, Space::kPsum, Space::kHbm);
  INFO(isa::name(space));
  const bool hbm = space == Space::kHbm;
  const models::QueueIndex first = hbm ? kDma : kV, second = hbm ? kDma2 : kS;
  Sequence s;
  const auto t = s.b.tensor("t", space, Dtype::kFloat32, {128, 64});
  const auto a = s.b.sbuf("a", Dtype::kFloat32, {128, 64});
  const auto c = s.b.sbuf("c", Dtype::kFloat32, {128, 64});
  const auto* whole = s.b.all(t);
  SECTION("read after write") {
    s.copy(first, whole, s.b.all(a));
    s.copy(second, s.b.all(c), whole);
    CHECK(s.last() == Waits{{first, 1, kRaw}});
  }
  SECTION("write after write") {
    s.copy(first, whole, s.b.all(a));
    s.copy(second, whole, s.b.all(c));
    CHECK(s.last() == Waits{{first, 1, kWaw}});
  }
  SECTION("write after read") {
    s.copy(first, s.b.all(c), whole);
    s.copy(second, whole, s.b.all(a));
    CHECK(s.last() == Waits{{first, 1, kWar}});
  }
  SECTION("two reads") {
    s.copy(first, s.b.all(a), whole);
    s.copy(second, s.b.all(c), whole);
    CHECK(s.last().empty());
  }
}

TEST_CASE("interleaved strides share no byte") {
  Sequence s;
  const auto t = s.b.sbuf("t", Dtype::kFloat32, {128, 64});
  const auto a = s.b.sbuf("a", Dtype::kFloat32, {128, 32});
  const auto c = s.b.sbuf("c", Dtype::kFloat32, {128, 32});
  const auto* even = s.b.view(t, {Dim{2, 32}});
  const auto* odd = s.b.view(t, {Dim{2, 32}}, 1);
  s.copy(kV, even, s.b.all(a));
  SECTION("even and odd elements") {
    s.copy(kS, odd, s.b.all(a));
    CHECK(s.last().empty());
  }
  SECTION("the same elements") {
    s.copy(kS, even, s.b.all(a));
    CHECK(s.last() == Waits{{kV, 1, kWaw}});
  }
  SECTION("a dense range over both") {
    s.copy(kS, s.b.all(c), s.b.view(t, {Dim{1, 32}}));
    CHECK(s.last() == Waits{{kV, 1, kRaw}});
  }
}

TEST_CASE("partition ranges that do not meet are independent") {
  Sequence s;
  const auto t = s.b.sbuf("t", Dtype::kFloat32, {128, 64});
  const auto a = s.b.sbuf("a", Dtype::kFloat32, {128, 64});
  const auto* low = s.b.view(t, {Dim{1, 64}}, 0, 0, 64);
  const auto* high = s.b.view(t, {Dim{1, 64}}, 0, 64, 64);
  const auto* source = s.b.view(a, {Dim{1, 64}}, 0, 0, 64);
  s.copy(kV, low, source);
  SECTION("upper half") {
    s.copy(kS, high, source);
    CHECK(s.last().empty());
  }
  SECTION("part of the same half") {
    s.copy(kS, s.b.view(t, {Dim{1, 64}}, 0, 32, 32), s.b.view(a, {Dim{1, 64}}, 0, 0, 32));
    CHECK(s.last() == Waits{{kV, 1, kWaw}});
  }
}

TEST_CASE("the latest of an engine stands for its earlier ones") {
  Sequence s;
  const auto t = s.b.sbuf("t", Dtype::kFloat32, {128, 64});
  const auto a = s.b.sbuf("a", Dtype::kFloat32, {128, 32});
  const auto c = s.b.sbuf("c", Dtype::kFloat32, {128, 64});
  s.copy(kV, s.b.view(t, {Dim{1, 32}}), s.b.all(a));
  s.copy(kV, s.b.view(t, {Dim{1, 32}}, 32), s.b.all(a));
  s.copy(kS, s.b.all(c), s.b.all(t));
  CHECK(s.last() == Waits{{kV, 2, kRaw}});
}

TEST_CASE("an engine waits for its own result, too") {
  Sequence s;
  const auto t = s.b.sbuf("t", Dtype::kFloat32, {128, 64});
  const auto a = s.b.sbuf("a", Dtype::kFloat32, {128, 64});
  const auto c = s.b.sbuf("c", Dtype::kFloat32, {128, 64});
  s.copy(kV, s.b.all(t), s.b.all(a));
  s.copy(kV, s.b.all(c), s.b.all(t));
  CHECK(s.last() == Waits{{kV, 1, kRaw}});
}

TEST_CASE("transfers of a DMA queue finish out of order: each is waited for") {
  Sequence s;
  const auto t = s.b.sbuf("t", Dtype::kFloat32, {128, 64});
  const auto x = s.b.hbm("x", Dtype::kFloat32, {128, 32});
  const auto c = s.b.sbuf("c", Dtype::kFloat32, {128, 64});
  s.copy(kDma, s.b.view(t, {Dim{1, 32}}), s.b.all(x));
  s.copy(kDma, s.b.view(t, {Dim{1, 32}}, 32), s.b.all(x));
  s.copy(kV, s.b.all(c), s.b.all(t));
  const Waits waits = s.last();
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].number + waits[1].number == 3);
}

TEST_CASE("a write hides what came before it") {
  Sequence s;
  const auto t = s.b.sbuf("t", Dtype::kFloat32, {128, 64});
  const auto a = s.b.sbuf("a", Dtype::kFloat32, {128, 64});
  const auto c = s.b.sbuf("c", Dtype::kFloat32, {128, 64});
  s.copy(kV, s.b.all(t), s.b.all(a));
  s.copy(kS, s.b.all(t), s.b.all(a));  // waits for kV
  s.copy(kG, s.b.all(c), s.b.all(t));
  CHECK(s.last() == Waits{{kS, 1, kRaw}});
}

TEST_CASE("tensors that share an address conflict, tensors of HBM do not") {
  Sequence s;
  const auto a = s.b.sbuf("a", Dtype::kFloat32, {128, 64});
  isa::Tensor other{.name = "alias", .space = Space::kSbuf, .shape = {128, 64}};
  other.address = s.b.program().tensor(a).address;
  const auto alias = s.b.program().add_tensor(other);
  const auto c = s.b.tensor("c", Space::kPsum, Dtype::kFloat32, {128, 64});
  s.copy(kV, s.b.all(alias), s.b.all(c));
  SECTION("on chip") {
    s.copy(kS, s.b.all(c), s.b.all(a));
    CHECK(s.last() == Waits{{kV, 1, kRaw}, {kV, 1, kWar}});
  }
  SECTION("HBM") {
    const auto d = s.b.sbuf("d", Dtype::kFloat32, {128, 64});
    const auto x = s.b.hbm("x", Dtype::kFloat32, {128, 64});
    const auto y = s.b.hbm("y", Dtype::kFloat32, {128, 64});
    s.copy(kDma, s.b.all(x), s.b.all(d));
    s.copy(kDma2, s.b.all(y), s.b.all(d));
    CHECK(s.last().empty());
  }
}

TEST_CASE("an operation is forgotten once it was visible before the horizon") {
  models::Completions completions(1);
  CHECK(completions.begin(0, 0, 0) == 1);
  completions.finish(0, 1, 7, 10);
  CHECK(completions.begin(0, 1, 10) == 2);  // just then it is not before
  CHECK_FALSE(completions.forgotten(0, 1));
  CHECK(completions.get(0, 1).end == 7);
  CHECK_FALSE(completions.finished_before(0, 1, 10));
  CHECK(completions.finished_before(0, 1, 11));
  CHECK(completions.begin(0, 2, 11) == 3);
  CHECK(completions.forgotten(0, 1));
  CHECK(completions.get(0, 1).visible == 0);
  CHECK_FALSE(completions.forgotten(0, 2));
  CHECK_FALSE(completions.finished_before(0, 2, 1000));  // it runs
}
