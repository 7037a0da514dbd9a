// Tests each engine of a core, driven through its ports alone, with its time summed by hand.
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "models/engines/gpsimd_engine.hpp"
#include "models/engines/scalar_engine.hpp"
#include "models/engines/sync_engine.hpp"
#include "models/engines/tensor_engine.hpp"
#include "models/engines/vector_engine.hpp"
#include "models/sim_session.hpp"
#include "tests/support/program_builder.hpp"

using namespace nkisim;
using namespace nkisim::models;
using PB = test::ProgramBuilder;

namespace {

constexpr QueueIndex kOther = 7;  // a queue whose operations others finish

CostRule rule(const std::string& id, isa::Unit unit, PartKind kind, double fixed, double cycles,
              double overlap = 0) {
  CostRule r{.id = id, .unit = unit, .opcodes = {"*"}, .kind = kind};
  r.fixed = from_ns(fixed);
  r.cycles_per_element = cycles;
  r.overlap = from_ns(overlap);
  return r;
}

// 1 GHz: a cycle is 1 ns. Engines begin at 40 ns and issue 2 ns apart; a wait ends 30 ns after the
// semaphore is seen, and that is 20 ns after the end of who posts it.
Config machine() {
  Config c;
  c.name = "test";
  for (EngineConfig& e : c.engines) {
    e.clock_ghz = 1;
    e.start = from_ns(40);
    e.issue = from_ns(2);
    e.issue_after_sequencer = from_ns(6);
    e.gap = from_ns(5);
    e.wake = from_ns(30);
    e.wake_sequencer = from_ns(10);
    e.update = from_ns(20);
  }
  CostRule tables = rule("tables", isa::Unit::kScalar, PartKind::kPipe, 1000, 0);
  tables.opcodes = {"ACT_TABLE_LOAD"};
  c.rules = {tables,
             rule("vector", isa::Unit::kVector, PartKind::kPipe, 100, 1, 60),
             rule("scalar", isa::Unit::kScalar, PartKind::kPipe, 200, 1, 60),
             rule("gpsimd", isa::Unit::kGpSimd, PartKind::kPipe, 300, 2),
             rule("weights", isa::Unit::kTensor, PartKind::kArray, 64, 1),
             rule("product", isa::Unit::kTensorMatrix, PartKind::kArray, 150, 1),
             rule("trigger", isa::Unit::kSync, PartKind::kDmaTrigger, 0, 0)};
  c.array = {.tile = 32};
  c.dma.hardware.trigger.fill(from_ns(50));
  c.dma.hardware.first_packet = from_ns(700);
  c.ports = {{isa::Space::kSbuf,
              1U << static_cast<unsigned>(isa::Engine::kVector) |
                  1U << static_cast<unsigned>(isa::Engine::kGpSimd),
              false}};
  return c;
}

struct Span {
  double start = 0, end = 0;  // ns
  bool operator==(const Span&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Span& s) {
  return out << "[" << s.start << ", " << s.end << "]";
}

// Stands in the place of a core for its engines: has their queues, and notes what they do.
class Bench : public sc_core::sc_module, public core_if, public dma_if, public Observer {
 public:
  explicit Bench(const Config& config)
      : sc_module(sc_core::sc_module_name("bench")),
        config_(config),
        costs_(config, builder_.program()),
        observers_({this}),
        setup{config_, costs_, observers_, 0},
        sbuf("sbuf", config.ports),
        psum("psum", config.ports, 8) {
    SC_HAS_PROCESS(Bench);
    SC_METHOD(step);
    sensitive << wake_;
  }
  template <typename Kind>
  void add() {
    auto made = std::make_unique<Kind>(("engine" + std::to_string(engines_.size())).c_str(), setup);
    made->core.bind(*this);
    made->semaphores.bind(semaphores);
    made->dma.bind(*this);
    if constexpr (std::is_base_of_v<ComputeEngine, Kind>) {
      made->sbuf.bind(sbuf);
      made->psum.bind(psum);
    }
    engines_.push_back(std::move(made));
  }
  /// An instruction of one part.
  Operation& put(isa::Engine engine, const isa::Part& part) {
    Form& form = forms_.emplace_back();
    form.expansion.parts = {part};
    form.costs.resize(1);
    Operation& op = operations_.emplace_back();
    op.form = &form;
    op.step.inst = &inst_;
    op.step.sequence = operations_.size();
    op.engine = engine;
    op.queue = static_cast<QueueIndex>(engine);
    op.number = operations_.size();
    op.dge = isa::DgeMode::kHwdge;
    queues_[engine].push_back(&op);
    return op;
  }
  /// At `ns` an operation of another queue has finished, and engines are woken.
  void finish_other(double ns, std::uint64_t number) { later_[from_ns(ns)] = number; }

  Operation* front(isa::Engine engine) override {
    auto& queue = queues_[engine];
    return queue.empty() ? nullptr : queue.front();
  }
  void pop(isa::Engine engine) override { queues_[engine].pop_front(); }
  [[nodiscard]] Completion completion(QueueIndex queue, std::uint64_t number) const override {
    const auto found = finished_.find({queue, number});
    return found == finished_.end() ? Completion{} : found->second;
  }
  void finish(Operation& op, Fs end) override {
    finished_[{op.queue, op.number}] = {end, SimSession::now(), op.step.sequence};
    seen.push_back(to_ns(SimSession::now()));
    for (auto& engine : engines_) engine->wake();
  }
  void post(const Operation& /*op*/, bool /*at_issue*/, Fs /*end*/) override {}
  bool rendezvous(Operation& /*op*/, Fs /*now*/, Fs& /*since*/) override { return true; }
  void start_collective(Operation& /*op*/, Fs /*triggered*/) override {}
  void submit(Operation& /*op*/, const DgeConfig& /*dge*/, Fs first_packet) override {
    packets.push_back(to_ns(first_packet));
  }
  [[nodiscard]] int outstanding(isa::DgeMode /*mode*/) override { return 0; }
  [[nodiscard]] Fs backlog(QueueIndex /*queue*/, std::int64_t /*bytes*/) override {
    return SimSession::now();
  }
  void occupy(double /*bytes*/) override {}
  void on_event(const PartEvent& e) override { spans.push_back({to_ns(e.start), to_ns(e.end)}); }

 private:
  test::ProgramBuilder builder_;
  const Config& config_;
  CostTable costs_;
  ObserverList observers_;

 public:
  EngineSetup setup;
  Sbuf sbuf;
  Psum psum;
  Semaphores semaphores{"semaphores"};
  std::vector<Span> spans;      // of parts, in the order of their issue
  std::vector<double> seen;     // when instructions took effect
  std::vector<double> packets;  // the first of each transfer

 private:
  void step() {
    const Fs now = SimSession::now();
    const auto due = later_.find(now);
    if (due != later_.end()) {
      finished_[{kOther, due->second}] = {now, now, 0};
      for (auto& engine : engines_) engine->wake();
      later_.erase(due);
    }
    for (auto& engine : engines_) engine->retire(now);
    for (auto& engine : engines_) engine->issue(now);
    Fs next = later_.empty() ? kNever : later_.begin()->first;
    for (auto& engine : engines_) next = std::min(next, engine->next());
    if (next != kNever) wake_.notify(SimSession::time(std::max(next, now) - now));
  }
  isa::Inst inst_;
  std::deque<Form> forms_;
  std::deque<Operation> operations_;
  std::map<isa::Engine, std::deque<Operation*>> queues_;
  std::map<std::pair<QueueIndex, std::uint64_t>, Completion> finished_;
  std::map<Fs, std::uint64_t> later_;
  ModuleList<Engine> engines_;
  sc_core::sc_event wake_{"wake"};
};

isa::Part part(isa::Unit unit, std::int64_t elements) {
  isa::Part p{.opcode = isa::Opcode::kCOPY, .unit = unit};
  p.elements = elements;
  return p;
}

isa::Part array_part(isa::Unit unit, std::int64_t elements) {
  isa::Part p = part(unit, elements);
  p.rows = p.columns = 128;
  return p;
}

using Spans = std::vector<Span>;

}  // namespace

// From 40 on: 400 elements and 100 ns around them. The second may begin 60 ns before that end. What
// they did is seen 20 ns after their ends.
TEST_CASE("VectorEngine: latency, stream, interval, semaphore") {
  const Config config = machine();
  SimSession session;
  Bench bench(config);
  bench.add<VectorEngine>();
  const SimSession::Ending ending(session);
  for (int i = 0; i < 2; ++i) bench.put(isa::Engine::kVector, part(isa::Unit::kVector, 400));
  session.run();
  CHECK(bench.spans == Spans{{40, 540}, {480, 980}});
  CHECK(bench.seen == std::vector<double>{560, 1000});
}

// Another queue's operation is visible at 1000, and wakes it 30 ns later.
TEST_CASE("an engine waits for an operation of another queue") {
  const Config config = machine();
  SimSession session;
  Bench bench(config);
  bench.add<VectorEngine>();
  const SimSession::Ending ending(session);
  Operation& op = bench.put(isa::Engine::kVector, part(isa::Unit::kVector, 400));
  op.needs.push_back({.queue = kOther, .part = 0, .number = 1});
  bench.finish_other(1000, 1);
  session.run();
  CHECK(bench.spans == Spans{{1030, 1530}});
}

// VectorE has the port of SBUF from 40 to the end of its interval, at 480. GpSimdE takes 300 ns and
// two a element. An instruction that does not use SBUF is not held up.
TEST_CASE("GpSimdEngine waits for the port of SBUF that VectorE has") {
  const Config config = machine();
  for (const bool sbuf : {true, false}) {
    SimSession session;
    Bench bench(config);
    bench.add<VectorEngine>();
    bench.add<GpSimdEngine>();
    const SimSession::Ending ending(session);
    bench.put(isa::Engine::kVector, part(isa::Unit::kVector, 400)).memory.sbuf = true;
    bench.put(isa::Engine::kGpSimd, part(isa::Unit::kGpSimd, 50)).memory.sbuf = sbuf;
    session.run();
    const double start = sbuf ? 480 : 40;
    std::vector<Span> spans = bench.spans;
    std::sort(spans.begin(), spans.end(),
              [](const Span& a, const Span& b) { return a.end < b.end; });
    CHECK(spans ==
          (sbuf ? Spans{{40, 540}, {start, start + 400}} : Spans{{start, start + 400}, {40, 540}}));
  }
}

// The tables come first: 1000 ns, of which all is on the data path. Then two of 200 + 100 ns, the
// second 60 ns before the first one's end; the third needs other tables.
TEST_CASE("ScalarEngine loads tables when a function needs others") {
  const Config config = machine();
  SimSession session;
  Bench bench(config);
  bench.add<ScalarEngine>();
  const SimSession::Ending ending(session);
  for (const std::uint32_t table : {1U, 1U, 2U}) {
    isa::Part p = part(isa::Unit::kScalar, 100);
    p.act_table = table;
    bench.put(isa::Engine::kScalar, p);
  }
  session.run();
  CHECK(bench.spans == Spans{{40, 1040}, {1040, 1340}, {1280, 1580}, {1520, 2520}, {2520, 2820}});
}

// Weights stream 128 cycles, and 64 ns later their effect is there. The product begins to stream
// when they are loaded, at 168, though its own start is 2 ns after theirs. Other weights are loaded
// from there on, behind the product, which ends to stream at 680: the second product follows at
// once.
TEST_CASE("TensorEngine hides a weight load behind the product before it") {
  const Config config = machine();
  SimSession session;
  Bench bench(config);
  bench.add<TensorEngine>();
  const SimSession::Ending ending(session);
  for (int i = 0; i < 2; ++i) {
    bench.put(isa::Engine::kTensor, array_part(isa::Unit::kTensor, 128));
    bench.put(isa::Engine::kTensor, array_part(isa::Unit::kTensorMatrix, 512));
  }
  session.run();
  CHECK(bench.spans == Spans{{40, 40 + 128 + 64},
                             {42, 168 + 512 + 150},
                             {168, 168 + 128 + 64},
                             {680, 680 + 512 + 150}});
}

// A trigger of 50 ns; the next 5 ns after its end. The first packet may go 700 ns after it.
TEST_CASE("SyncEngine triggers DMAs one after the other") {
  Config config = machine();
  config.dma.hardware.holds_sequencer = true;
  SimSession session;
  Bench bench(config);
  bench.add<SyncEngine>();
  const SimSession::Ending ending(session);
  for (int i = 0; i < 2; ++i) {
    Operation& op = bench.put(isa::Engine::kSync, part(isa::Unit::kSync, 0));
    op.form->expansion.is_dma = true;
  }
  session.run();
  CHECK(bench.spans == Spans{{40, 90}, {95, 145}});
  CHECK(bench.packets == std::vector<double>{790, 845});
}

TEST_CASE("an engine whose port is not bound ends elaboration with an error") {
  const Config config = machine();
  SimSession session;
  Bench bench(config);
  auto engine = std::make_unique<SyncEngine>("loose", bench.setup);
  const SimSession::Ending ending(session);
  CHECK(PB::error_of([&] { session.elaborate(); }).find("port not bound") != std::string::npos);
}
