// Tests an HBM stack that cores share: times summed by hand, and every order of events at one
// instant.
#include "models/chip/hbm_stack.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <random>
#include <tuple>
#include <vector>

#include "models/chip/collective_core.hpp"
#include "models/dma/dma_rings.hpp"
#include "models/module_list.hpp"
#include "models/sim_session.hpp"

using namespace nkisim;
using namespace nkisim::models;

namespace {

constexpr QueueIndex kQueue = 5;

// An action of a core at an instant: it submits a transfer, asks, or steps its rings.
struct Action {
  enum class Kind : std::uint8_t { kSubmit, kStep, kOutstanding, kBacklog } kind = Kind::kStep;
  int core = 0;
  std::int64_t rows = 0, bytes = 0;
  double after_ns = 50;  // its first packet may start
};
struct Instant {
  Fs time = 0;
  std::vector<Action> actions;
};
using Outcome = std::tuple<int, std::uint64_t, Fs, Fs, Fs>;

DmaConfig engines_of(int count) {
  DmaConfig c;
  c.engines = count;
  c.bytes_per_ns = 20;
  c.packet_gap = from_ns(5);
  c.packet_overlap = from_ns(3);
  c.semaphore_packet = from_ns(9);
  c.semaphore_latency = from_ns(100);
  c.semaphore_serial = from_ns(10);
  c.rows_per_engine = 8;
  return c;
}

// A core as far as its rings know it.
class Core : public sc_core::sc_module, public dma_core_if {
 public:
  Core(const sc_core::sc_module_name& name, int number, const DmaConfig& config,
       std::function<void()> on_sooner)
      : sc_module(name),
        rings("dma", {number, 0}, config, {"queue"}, {}),
        number_(number),
        config_(config),
        on_sooner_(std::move(on_sooner)) {
    rings.core.bind(*this);
    rings.number("queue", kQueue);
  }
  void act(const Action& a, Fs now) {
    switch (a.kind) {
      case Action::Kind::kSubmit:
        return submit(a, now);
      case Action::Kind::kStep:
        return rings.step(now);
      case Action::Kind::kOutstanding:
        answers.push_back(rings.outstanding(isa::DgeMode::kHwdge));
        return;
      case Action::Kind::kBacklog:
        answers.push_back(rings.backlog(kQueue, 4096));
    }
  }
  DmaRings rings;
  std::vector<Outcome> outcomes;
  std::vector<Fs> answers;

 private:
  void submit(const Action& a, Fs now) {
    Form& form = forms_.emplace_back();
    form.expansion.dma = {.src = isa::Space::kSbuf,
                          .dst = isa::Space::kHbm,
                          .bytes = a.rows * a.bytes,
                          .descriptors = a.rows,
                          .descriptor_bytes = a.bytes,
                          .rows = a.rows};
    Operation& op = operations_.emplace_back();
    op.form = &form;
    op.step.inst = &inst_;
    op.step.sequence = operations_.size();
    op.queue = kQueue;
    op.dge = isa::DgeMode::kHwdge;
    rings.submit(op, config_.hardware, now + from_ns(a.after_ns));
  }
  [[nodiscard]] Fs now() const override { return SimSession::now(); }
  void dma_sooner() override { on_sooner_(); }
  void dma_update(Transfer& /*t*/, int /*engine*/) override {}
  void dma_done(Transfer& t) override {
    outcomes.emplace_back(number_, t.op->step.sequence, t.first_packet, t.last_packet, t.visible);
  }
  void dma_share(const Transfer& /*t*/, const LanePlan& /*p*/, const LaneDone& /*d*/) override {}
  void dma_packet(const Transfer& /*t*/, int /*e*/, const PacketTime& /*p*/) override {}
  int number_;
  const DmaConfig& config_;
  std::function<void()> on_sooner_;
  isa::Inst inst_;
  std::deque<Form> forms_;
  std::deque<Operation> operations_;
};

// Cores on one stack. At each instant `order` says in which order the actions take place; cores
// whose rings are due are among them.
class Bench : public sc_core::sc_module {
 public:
  using Order = std::function<void(std::vector<Action>&)>;
  Bench(const sc_core::sc_module_name& name, int cores, const DmaConfig& config,
        double bytes_per_ns, std::vector<Instant> plan, Order order, const TieRule& tie)
      : sc_module(name),
        stack("hbm0", rates(bytes_per_ns), cores * config.engines * config.bytes_per_ns,
              cores * config.engines, tie),
        plan_(std::move(plan)),
        order_(std::move(order)) {
    for (int c = 0; c < cores; ++c) {
      list.push_back(std::make_unique<Core>(("core" + std::to_string(c)).c_str(), c, config,
                                            [this] { wake_.notify(sc_core::SC_ZERO_TIME); }));
      list.back()->rings.hbm.bind(stack);
    }
    SC_HAS_PROCESS(Bench);
    SC_METHOD(step);
    sensitive << wake_;
  }
  [[nodiscard]] std::vector<Outcome> outcomes() const {
    std::vector<Outcome> all;
    for (const auto& core : list) {
      all.insert(all.end(), core->outcomes.begin(), core->outcomes.end());
    }
    return all;
  }
  [[nodiscard]] std::vector<std::vector<Fs>> answers() const {
    std::vector<std::vector<Fs>> all;
    for (const auto& core : list) all.push_back(core->answers);
    return all;
  }
  HbmStack stack;
  ModuleList<Core> list;

 private:
  static const HbmConfig& rates(double bytes_per_ns) {
    static HbmConfig config;
    config.bytes_per_ns = bytes_per_ns;
    return config;
  }
  void step() {
    const Fs now = SimSession::now();
    std::vector<Action> actions;
    for (; next_ < plan_.size() && plan_[next_].time <= now; ++next_) {
      actions.insert(actions.end(), plan_[next_].actions.begin(), plan_[next_].actions.end());
    }
    for (std::size_t c = 0; c < list.size(); ++c) {
      if (list[c]->rings.next() <= now) actions.push_back({.core = static_cast<int>(c)});
    }
    order_(actions);
    for (const Action& a : actions) list[static_cast<std::size_t>(a.core)]->act(a, now);
    Fs next = next_ < plan_.size() ? plan_[next_].time : kNever;
    for (const auto& core : list) next = std::min(next, core->rings.next());
    if (next > now && next != kNever) wake_.notify(SimSession::time(next - now));
  }
  std::vector<Instant> plan_;
  Order order_;
  std::size_t next_ = 0;
  sc_core::sc_event wake_;
};

struct Run {
  std::vector<Outcome> outcomes;
  std::vector<std::vector<Fs>> answers;
  bool operator==(const Run&) const = default;
};

Run run(int cores, const DmaConfig& config, double bytes_per_ns, const std::vector<Instant>& plan,
        const Bench::Order& order, const TieRule& tie = {}) {
  SimSession session;
  Bench bench("bench", cores, config, bytes_per_ns, plan, order, tie);
  const SimSession::Ending ending(session);
  session.run();
  return {bench.outcomes(), bench.answers()};
}

void as_planned(std::vector<Action>& /*actions*/) {}

// Few different moments, so that much falls together. What one core does keeps its order.
std::vector<Instant> random_plan(unsigned seed, int cores) {
  std::mt19937 random(seed);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<Instant> plan;
  Fs time = 0;
  for (int i = 0; i < 40; ++i) {
    time += from_ns(64) * (1 + draw(12));
    Instant& instant = plan.emplace_back(Instant{time, {}});
    for (int c = 0; c < cores; ++c) {
      if (draw(3) == 0) continue;
      const auto kind = static_cast<Action::Kind>(draw(6) < 4 ? 0 : 1 + draw(3));
      instant.actions.push_back({kind, c, 8 * (1 + draw(2)), std::int64_t{512} << draw(4),
                                 draw(3) == 0 ? 0.0 : 50.0});  // 0: at this instant
    }
  }
  return plan;
}

Bench::Order by_cores(const std::vector<int>& first) {
  return [first](std::vector<Action>& actions) {
    std::stable_sort(actions.begin(), actions.end(), [&](const Action& a, const Action& b) {
      return first[static_cast<std::size_t>(a.core)] < first[static_cast<std::size_t>(b.core)];
    });
  };
}

}  // namespace

// One engine moves eight packets of 2000 bytes, each in 100 ns and a gap of 5: 16,000 bytes in 840
// ns from 50 ns on, 400/21 bytes/ns. The stack has 10 bytes/ns, windows of 256 ns hold 2560. In
// each the engine takes what is free at its own rate, then 10 bytes/ns that later windows owe:
//   window  free bytes  until ns   owed bytes until its end   left to do
//     0       2560        184.4      716                        12724
//     1       1844        352.81    1591.9                       9288.1
//     2        968.1      562.825   2051.75                      6268.25
//     3        508.25     794.683   2293.17                      3466.83
//     4        266.83    1038.009   2419.91                       780.09
//     5        140.09    1287.355    640 in 64 ns
// and the last packet ends 3 ns after the next could start.
TEST_CASE("a stack that cannot serve an engine delays it by the sum") {
  const DmaConfig config = engines_of(1);
  const std::vector<Instant> plan = {{0, {{Action::Kind::kSubmit, 0, 8, 2000}}}};
  const Run ample = run(1, config, 0, plan, as_planned);
  REQUIRE(ample.outcomes.size() == 1);
  CHECK(ample.outcomes[0] ==
        Outcome{0, 1, from_ns(50), from_ns(50 + 7 * 105 + 108), from_ns(50 + 8 * 105 + 100)});
  const Run limited = run(1, config, 10, plan, as_planned);
  REQUIRE(limited.outcomes.size() == 1);
  CHECK(to_ns(std::get<3>(limited.outcomes[0])) == Approx(1287.355 + 64 + 3).margin(0.01));
}

TEST_CASE("cores that act at one instant find the same stack in every order") {
  const DmaConfig config = engines_of(2);
  int contended = 0;
  for (unsigned seed = 1; seed <= 60; ++seed) {
    INFO("seed " << seed);
    const std::vector<Instant> plan = random_plan(seed, 3);
    const Run usual = run(3, config, 70, plan, by_cores({0, 1, 2}));
    CHECK(!usual.outcomes.empty());
    contended += usual == run(3, config, 0, plan, by_cores({0, 1, 2})) ? 0 : 1;
    for (const std::vector<int>& first :
         {std::vector{0, 2, 1}, std::vector{1, 0, 2}, std::vector{1, 2, 0}, std::vector{2, 0, 1},
          std::vector{2, 1, 0}}) {
      CHECK(run(3, config, 70, plan, by_cores(first)) == usual);
    }
    for (const std::uint64_t shuffle : {1, 2}) {
      CHECK(run(3, config, 70, plan, by_cores({0, 1, 2}), {.shuffle_seed = shuffle}) == usual);
    }
  }
  CHECK(contended >= 50);  // else the stack would decide nothing
}

// Engines without payload write their semaphores at once, and nothing lies between that and its
// arrival. Both cores submit at 0, when the stack is settled.
TEST_CASE("transfers without latency end on a stack that limits them") {
  DmaConfig config = engines_of(2);
  config.semaphore_latency = config.semaphore_serial = 0;
  config.packet_overlap = config.semaphore_packet = 0;
  const std::vector<Instant> plan = {
      {0, {{Action::Kind::kSubmit, 0, 8, 2000, 0}, {Action::Kind::kSubmit, 1, 8, 2000, 0}}}};
  const Run both = run(2, config, 70, plan, as_planned);
  REQUIRE(both.outcomes.size() == 2);
  CHECK(std::get<2>(both.outcomes[0]) == 0);
  CHECK(both == run(2, config, 70, plan, by_cores({1, 0})));
}

TEST_CASE("a CC-core takes its part of the stack and of the rings of its cores") {
  const DmaConfig config = engines_of(1);
  CollectiveConfig collectives;
  collectives.ring_bytes = 1'000'000;
  const auto last_packet = [&](double hbm_bytes, double engine_bytes) {
    SimSession session;
    const std::vector<Instant> plan = {{0, {{Action::Kind::kSubmit, 0, 8, 2000}}}};
    Bench bench("bench", 1, config, 15, plan, as_planned, {});
    CollectiveCore cc("cc0", collectives);
    cc.hbm.bind(bench.stack);
    cc.dma.bind(bench.list.front()->rings);
    const SimSession::Ending ending(session);
    session.elaborate();
    cc.move({.rank = 0,
             .start = 0,
             .span = from_ns(1024),
             .hbm_bytes = hbm_bytes,
             .engine_bytes = engine_bytes},
            0);
    CHECK(cc.moved() == 1);
    session.run();
    return to_ns(std::get<3>(bench.outcomes().at(0)));
  };
  const double alone = last_packet(0, 0);
  // All of four windows of 256 ns: the store begins at 50 ns and finds nothing before 1024.
  CHECK(last_packet(4 * 256 * 15, 0) == Approx(alone + 1024 - 50).epsilon(0.02));
  // One packet of 2000 bytes before it: 100 ns and a gap of 5, from 0 on; the store waits 55 ns.
  CHECK(last_packet(0, 2000) == Approx(alone + 55).epsilon(0.02));
  // More than rings of their own hold off: engines are not occupied.
  CHECK(last_packet(0, 2'000'000) == alone);
}
