// Tests the DMA rings of a core, driven through ports alone, and the queues that a program uses.
#include "models/dma/dma_rings.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "isa/base/error.hpp"
#include "models/sim_session.hpp"
#include "tests/support/program_builder.hpp"

using namespace nkisim;
using namespace nkisim::models;
using PB = test::ProgramBuilder;

namespace {

constexpr QueueIndex kFirst = 5, kSecond = 6;

// Two engines, of which the second starts 4 ns later. A packet of 2000 bytes takes 100 ns and a gap
// of 5; the next may start then, and its own end is 3 ns later. A semaphore write is visible 100 ns
// after its start, and 10 ns after that of the queue before it.
DmaConfig two_engines() {
  DmaConfig c;
  c.engines = 2;
  c.bytes_per_ns = 20;
  c.packet_gap = from_ns(5);
  c.packet_overlap = from_ns(3);
  c.semaphore_packet = from_ns(9);
  c.semaphore_latency = from_ns(100);
  c.semaphore_serial = from_ns(10);
  c.hbm_read_latency = from_ns(50);
  c.rows_per_engine = 8;
  c.stagger = {0, from_ns(4)};
  c.hardware.queue_interval = from_ns(2000);
  return c;
}

// An HBM stack that can serve everybody. A limited one is settled once for each instant, as Hbm is.
struct AmpleHbm : hbm_if {
  [[nodiscard]] bool limits() const override { return limited; }
  Fs delay(Fs /*start*/, Fs /*span*/, double /*bytes*/) override { return 0; }
  void reserve(Fs /*start*/, Fs /*span*/, double /*bytes*/) override {}
  void join(HbmUser& joining) override {
    ++joined;
    user = &joining;
  }
  void settle(Fs now) override {
    if (!limited || now <= settled) return;
    settled = now;
    user->take_until(now, false);
  }
  void settle_all(Fs /*now*/) override {}
  bool limited = false;
  int joined = 0;
  HbmUser* user = nullptr;
  Fs settled = 0;
};

// Stands in the place of a core: does things at their times, and notes what the rings report.
class Bench : public sc_core::sc_module, public dma_core_if {
 public:
  Bench(const sc_core::sc_module_name& name, const DmaConfig& config,
        DmaRings::Options options = {.shares = true})
      : sc_module(name), rings("dma", {}, config, {"first", "second"}, options), config_(config) {
    rings.hbm.bind(hbm);
    rings.core.bind(*this);
    rings.number("first", kFirst);
    rings.number("second", kSecond);
    SC_HAS_PROCESS(Bench);
    SC_METHOD(step);
    sensitive << wake_;
  }
  struct Event {
    std::string what;
    QueueIndex queue = 0;
    double at = 0, first = 0, last = 0;  // ns
    bool operator==(const Event&) const = default;
  };
  /// In order of time.
  void at(double ns, std::function<void()> what) {
    plan_.push_back({from_ns(ns), std::move(what)});
  }
  /// 16 rows of 2000 bytes from SBUF to HBM: eight packets on each engine, for each piece of a row.
  void store(QueueIndex queue, double first_packet_ns, isa::Space from = isa::Space::kSbuf,
             std::int64_t pieces = 1) {
    Form& form = forms_.emplace_back();
    form.expansion.dma = {.src = from,
                          .dst = from == isa::Space::kSbuf ? isa::Space::kHbm : isa::Space::kSbuf,
                          .bytes = 16 * 2000,
                          .descriptors = 16 * pieces,
                          .descriptor_bytes = 2000 / pieces,
                          .rows = 16};
    Operation& op = operations_.emplace_back();
    op.form = &form;
    op.step.inst = &inst_;
    op.queue = queue;
    op.dge = isa::DgeMode::kHwdge;
    rings.submit(op, config_.hardware, from_ns(first_packet_ns));
  }

  AmpleHbm hbm;
  DmaRings rings;
  std::vector<Event> events;

 private:
  [[nodiscard]] Fs now() const override { return SimSession::now(); }
  void dma_sooner() override { wake_.notify(); }
  void dma_update(Transfer& t, int engine) override { note("update " + std::to_string(engine), t); }
  void dma_done(Transfer& t) override { note("done", t); }
  void dma_share(const Transfer& t, const LanePlan& p, const LaneDone& d) override {
    events.push_back({"share " + std::to_string(p.engine), t.op->queue, 0, to_ns(d.start),
                      to_ns(d.payload_end)});
  }
  void dma_packet(const Transfer& t, int engine, const PacketTime& p) override {
    events.push_back({"packet " + std::to_string(engine), t.op->queue, 0, to_ns(p.start),
                      to_ns(p.start + p.duration)});
  }
  void note(const std::string& what, const Transfer& t) {
    events.push_back(
        {what, t.op->queue, to_ns(SimSession::now()), to_ns(t.first_packet), to_ns(t.last_packet)});
  }
  void step() {
    const Fs now = SimSession::now();
    rings.step(now);
    for (; next_ < plan_.size() && plan_[next_].first <= now; ++next_) plan_[next_].second();
    const Fs next = std::min(rings.next(), next_ < plan_.size() ? plan_[next_].first : kNever);
    if (next != kNever) wake_.notify(SimSession::time(std::max(next, now) - now));
  }
  const DmaConfig& config_;
  isa::Inst inst_;
  std::deque<Form> forms_;
  std::deque<Operation> operations_;
  std::vector<std::pair<Fs, std::function<void()>>> plan_;
  std::size_t next_ = 0;
  sc_core::sc_event wake_;
};

using Events = std::vector<Bench::Event>;

std::ostream& operator<<(std::ostream& out, const Bench::Event& e) {
  return out << e.what << " queue " << e.queue << " at " << e.at << " [" << e.first << ", "
             << e.last << "]";
}

}  // namespace

// Engine 0 starts packets at 1000, 1105 ... 1735, the last of which ends 108 ns later, at 1843. It
// writes the semaphore at 1840, seen at 1940. Engine 1 does the same 4 ns later; its write would be
// seen at 1944, but follows the queue's other one by 10 ns.
TEST_CASE("a store through the ports of the rings takes the time of the sum") {
  const DmaConfig config = two_engines();
  for (const bool fast : {true, false}) {
    SimSession session;
    Bench bench("bench", config, {.shares = true, .fast_path = fast});
    const SimSession::Ending ending(session);
    bench.at(200, [&] { bench.store(kFirst, 1000); });
    session.run();
    CHECK(bench.hbm.joined == 0);
    CHECK(bench.events == Events{{"share 0", kFirst, 0, 1000, 1843},
                                 {"share 1", kFirst, 0, 1004, 1847},
                                 {"update 1", kFirst, 1950, 1000, 1847},
                                 {"done", kFirst, 1950, 1000, 1847}});
  }
}

// 2000 ns between first packets of one queue, so the second starts at 3000, and a load 50 ns later.
TEST_CASE("a queue keeps its descriptors in order and apart") {
  const DmaConfig config = two_engines();
  SimSession session;
  Bench bench("bench", config, {});
  const SimSession::Ending ending(session);
  bench.at(200, [&] {
    bench.store(kFirst, 1000);
    bench.store(kFirst, 1000, isa::Space::kHbm);
  });
  session.run();
  CHECK(bench.events == Events{{"update 1", kFirst, 1950, 1000, 1847},
                               {"done", kFirst, 1950, 1000, 1847},
                               {"update 1", kFirst, 4000, 3050, 3897},
                               {"done", kFirst, 4000, 3050, 3897}});
}

// Packets of two queues alternate: 16 packets and the first queue's semaphore
// write (6 ns) on each engine before the second's. Engine 0 starts the first queue's last packet at
// 1000 + 14 * 105 = 2470, the second's at 2575, the semaphore writes at 2680 and 2686; engine 1
// each 4 ns later.
TEST_CASE("queues alternate on the engines") {
  DmaConfig config = two_engines();
  config.turn_bytes = 2000;
  SimSession session;
  Bench bench("bench", config, {});
  const SimSession::Ending ending(session);
  bench.at(200, [&] {
    bench.store(kFirst, 1000);
    bench.store(kSecond, 1000);
  });
  session.run();
  CHECK(bench.events == Events{{"update 1", kFirst, 2790, 1000, 2470 + 4 + 108},
                               {"done", kFirst, 2790, 1000, 2470 + 4 + 108},
                               {"update 1", kSecond, 2796, 1105, 2575 + 4 + 108},
                               {"done", kSecond, 2796, 1105, 2575 + 4 + 108}});
}

// Engine 0 starts packets of 1000 bytes at 1050, 1125 ... 2175 (50 ns, and gaps of 5 and of 20) and
// writes the semaphore at 2250. At 2200 a second queue gets work for 3000. Had it been ready at
// once, the first could have left out its 16 gaps and ended at 1930, which is over.
TEST_CASE("a queue that others join on a stack that limits them ends when it would have") {
  DmaConfig config = two_engines();
  config.piece_gap = from_ns(20);
  config.piece_full_bytes = 1000;
  SimSession session;
  Bench bench("bench", config, {});
  bench.hbm.limited = true;
  const SimSession::Ending ending(session);
  bench.at(200, [&] { bench.store(kFirst, 1000, isa::Space::kHbm, 2); });
  bench.at(2200, [&] { bench.store(kSecond, 3000); });
  session.run();
  CHECK(bench.hbm.joined == 1);
  CHECK(bench.events == Events{{"update 1", kFirst, 2360, 1050, 2175 + 4 + 78},
                               {"done", kFirst, 2360, 1050, 2175 + 4 + 78},
                               {"update 1", kSecond, 3950, 3000, 3847},
                               {"done", kSecond, 3950, 3000, 3847}});
}

// At 1420 engine 0 has begun five packets, the fifth at that moment, and engine 1 four: three and
// four are left, and the semaphore write of 4 bytes. At 1840 and 1844 the engines have finished.
TEST_CASE("rings say how much is under way") {
  const DmaConfig config = two_engines();
  SimSession session;
  Bench bench("bench", config, {});
  const SimSession::Ending ending(session);
  std::vector<double> backlog;
  std::vector<int> outstanding;
  const auto ask = [&] {
    outstanding.push_back(bench.rings.outstanding(isa::DgeMode::kHwdge));
    CHECK(bench.rings.outstanding(isa::DgeMode::kSwdge) == 0);
  };
  bench.at(200, [&] { bench.store(kFirst, 1000); });
  bench.at(1420, [&] {
    ask();
    for (const std::int64_t bytes : {8004, 4004, 0}) {
      backlog.push_back(to_ns(bench.rings.backlog(kFirst, bytes)));
    }
    backlog.push_back(to_ns(bench.rings.backlog(kSecond, 0)));
  });
  bench.at(1843, ask);
  bench.at(1844, ask);
  session.run();
  CHECK(outstanding == std::vector<int>{1, 1, 0});
  // Engine 1's packets start at 1424 and 1529; its semaphore write at 1844.
  CHECK(backlog == std::vector<double>{1420, 1529, 1844, 1420});
}

TEST_CASE("rings are modules with a module for each queue and engine") {
  const DmaConfig config = two_engines();
  SimSession session;
  const Bench bench("bench", config);
  const SimSession::Ending ending(session);
  session.elaborate();
  std::vector<std::string> names;
  for (const sc_core::sc_object* o : bench.rings.get_child_objects()) names.emplace_back(o->name());
  CHECK(names == std::vector<std::string>{"bench.dma.hbm", "bench.dma.core", "bench.dma.engine0",
                                          "bench.dma.engine1", "bench.dma.first",
                                          "bench.dma.second"});
}

TEST_CASE("a transfer on a queue that the program does not have is an error") {
  const DmaConfig config = two_engines();
  SimSession session;
  Bench bench("bench", config);
  const SimSession::Ending ending(session);
  std::string message;
  bench.at(200, [&] { message = PB::error_of([&] { bench.store(9, 1000); }); });
  session.run();
  CHECK(message ==
        "internal error: bench.dma has none of its 2 queues for number 9, which a "
        "transfer takes");
}

TEST_CASE("a program's queues are those that its transfers can take") {
  PB b;
  const auto x = b.hbm("x", isa::Dtype::kFloat32, {128, 64});
  const auto t = b.sbuf("t", isa::Dtype::kFloat32, {128, 64});
  const auto copy = [&](isa::Engine engine) {
    b.op("dma_copy", {{"dst", PB::arg(b.all(t))}, {"src", PB::arg(b.all(x))}}, engine);
  };
  Config config;
  copy(isa::Engine::kSync);
  copy(isa::Engine::kGpSimd);  // whose descriptors are made by software
  copy(isa::Engine::kSync);
  CHECK(dma_queue_names(b.program(), config, 0) ==
        std::vector<std::string>{"qSyncDynamicHW", "qGpSimdDynamic"});
  CHECK(dma_queue_names(b.program(), config, 1).empty());
  config.compiler.dma_queues_per_engine = 2;
  CHECK(dma_queue_names(b.program(), config, 0) ==
        std::vector<std::string>{"qSyncDynamicHW0", "qSyncDynamicHW1", "qGpSimdDynamic0",
                                 "qGpSimdDynamic1"});
}
