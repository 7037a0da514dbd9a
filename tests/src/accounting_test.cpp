// Tests the accounting of simulated time: every femtosecond of every engine and queue has one
// cause.
#include "src/report/accounting.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "src/config/config_json.hpp"
#include "src/report/summary.hpp"
#include "src/report/what_if.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_reader.hpp"
#include "tests/support/source_folder.hpp"

using namespace nkisim;
using models::Fs;

namespace {

// Independent of the accounting: when an engine had anything in it at all.
struct Intervals : models::Observer {
  std::vector<std::array<std::vector<Interval>, isa::kEngineCount>> engines{2};
  void on_event(const models::PartEvent& e) override {
    engines.at(static_cast<std::size_t>(e.core))
        .at(static_cast<std::size_t>(engine_of(e.part->unit)))
        .push_back({e.start, e.end});
  }
};

Fs sum(const Charges& charges) {
  Fs total = 0;
  for (const auto& [charge, fs] : charges) {
    CHECK(fs >= 0);
    total += fs;
  }
  return total;
}

Fs of(const Charges& charges, Cause cause) {
  Fs total = 0;
  for (const auto& [charge, fs] : charges) total += charge.first == cause ? fs : 0;
  return total;
}

void check_engine(const Accounting::Engine& engine, std::vector<Interval> intervals, Fs end) {
  CHECK(sum(engine.total) == end);
  Fs parts = of(engine.total, Cause::kEnd);
  for (std::size_t i = 0; i < engine.parts.size(); ++i) {
    for (const auto& cause : engine.closed) parts += cause[i];
  }
  CHECK(parts == end);
  CHECK(of(engine.total, Cause::kBusy) + of(engine.total, Cause::kFixed) +
            of(engine.total, Cause::kThrottle) ==
        merge_intervals(intervals));
}

// The time that an engine spends on issuing is time in which nothing ran on it.
void check_issue(const PathItem& item,
                 const std::array<std::vector<Interval>, isa::kEngineCount>& engines) {
  if (item.cause != Cause::kIssue || item.inst == nullptr) return;
  const auto& busy = engines.at(item.where);
  CHECK(std::none_of(busy.begin(), busy.end(),
                     [&](const Interval& i) { return i.start < item.to && i.end > item.from; }));
}

void check_path(const Accounting& accounting, const Intervals& intervals, int core, Fs end) {
  Fs at = 0;
  for (const PathItem& item : critical_path(accounting, core)) {
    CHECK(item.from == at);
    CHECK(item.to > item.from);
    check_issue(item, intervals.engines.at(static_cast<std::size_t>(core)));
    at = item.to;
  }
  CHECK(at <= end);
  if (accounting.cores().size() == 1) CHECK(at == end);
}

void check_trace(const std::string& path, const std::string& config) {
  INFO(path);
  const TraceFile trace = read_trace(path, {.target = config});
  isa::Memory memory(*trace.program);
  load_inputs(trace, memory);
  Accounting accounting;
  Intervals intervals;
  const models::Config machine = load_config(config);
  const SimResult r = simulate(*trace.program, machine, &memory, {&accounting, &intervals});
  REQUIRE(accounting.end() == r.end);
  for (std::size_t c = 0; c < accounting.cores().size(); ++c) {
    const Accounting::Core& core = accounting.cores()[c];
    for (std::size_t e = 0; e < core.engines.size(); ++e) {
      check_engine(core.engines.at(e), intervals.engines.at(c).at(e), r.end);
    }
    for (const Accounting::Queue& q : core.queues) {
      if (!q.transfers.empty()) CHECK(sum(q.total) == r.end);
    }
    check_path(accounting, intervals, static_cast<int>(c), r.end);
  }
}

}  // namespace

TEST_CASE("every femtosecond of every trace has one cause") {
  for (const auto& f : std::filesystem::directory_iterator(source_folder() + "/traces")) {
    if (f.path().extension() != ".jsonl") continue;
    check_trace(f.path().string(),
                std::string(read_trace(f.path().string()).program->machine().target));
  }
}

TEST_CASE("waits are charged in the order of their milestones") {
  isa::Program program(*isa::find_machine("trn2"));
  Accounting a;
  const models::Config config = load_config("trn2");
  a.on_start(program, config);
  for (std::uint16_t q = 0; q < isa::kEngineCount; ++q) a.on_queue({0, q, "engine"});
  isa::Inst inst;
  const isa::Part part{.unit = isa::Unit::kGpSimd};
  models::PartEvent e{.inst = &inst, .part = &part, .kind = models::PartKind::kSequencer};
  e.start = e.busy_from = 100;
  e.end = e.busy_to = 150;
  e.wait.ready = 100;
  e.wait.producer = static_cast<std::uint16_t>(isa::Engine::kVector);
  e.wait.producer_end = 40;
  e.wait.visible = 55;
  e.wait.awake = 60;
  e.wait.port_free = 75;
  e.wait.port_holder = isa::Engine::kVector;
  e.wait.pipe_free = 80;
  a.on_event(e);
  a.on_end({400});
  const auto& total = a.cores()[0].engines.at(static_cast<std::size_t>(isa::Engine::kGpSimd)).total;
  CHECK(of(total, Cause::kWaitEngine) == 40);
  CHECK(of(total, Cause::kSemaphore) == 20);
  CHECK(of(total, Cause::kPort) == 15);
  CHECK(of(total, Cause::kOwnPath) == 5);
  CHECK(of(total, Cause::kIssue) == 20);
  CHECK(of(total, Cause::kBusy) == 50);
  CHECK(of(total, Cause::kEnd) == 250);
}

namespace {

// VectorE waits for a transfer of 1000 fs of payload, at a memory that costs a quarter on top.
std::pair<Charges, Charges> charges_of_transfer(isa::Space src, isa::Space dst) {
  isa::Program program(*isa::find_machine("trn2"));
  models::Config config = load_config("trn2");
  config.dma.hbm_stall_fraction = 0.25;
  config.dma.hbm_read_latency = 30;
  config.dma.hardware.first_packet = 70;
  Accounting a;
  a.on_start(program, config);
  for (std::uint16_t q = 0; q <= isa::kEngineCount; ++q) a.on_queue({0, q, "queue"});
  constexpr models::QueueIndex kQueue = isa::kEngineCount;
  isa::Inst inst;
  inst.engine = isa::Engine::kSync;
  const isa::DmaWork work{.src = src, .dst = dst, .bytes = 4096};
  a.on_event(models::DmaEvent{.inst = &inst,
                              .sequence = 1,
                              .queue = kQueue,
                              .mode = isa::DgeMode::kHwdge,
                              .work = &work,
                              .trigger_start = 100,
                              .trigger_end = 200,
                              .first_packet = 350,
                              .last_packet = 1350,
                              .visible = 1400,
                              .packets = 4});
  const isa::Part part{.unit = isa::Unit::kVector};
  models::PartEvent e{.inst = &inst, .part = &part, .kind = models::PartKind::kSequencer};
  e.sequence = 2;
  e.start = e.busy_from = 1420;
  e.end = e.busy_to = 1500;
  e.wait.producer = kQueue;
  e.wait.producer_sequence = 1;
  e.wait.producer_end = 1350;
  e.wait.visible = 1400;
  e.wait.awake = 1420;
  a.on_event(e);
  a.on_end({1500});
  const Accounting::Core& core = a.cores()[0];
  return {core.engines.at(static_cast<std::size_t>(isa::Engine::kVector)).total,
          core.queues.at(kQueue).total};
}

}  // namespace

TEST_CASE("of a load's time the memory has f / (1 + f), of a store's none") {
  {
    // Payload of 1000: 800 would do without the memory's quarter on top. Descriptors and latency
    // take 70 + 30 of the 150 before it; in the other 50 the engines are taken.
    const auto [engine, queue] = charges_of_transfer(isa::Space::kHbm, isa::Space::kSbuf);
    CHECK(of(engine, Cause::kWaitEngine) == 200);
    CHECK(of(engine, Cause::kDmaLatency) == 100);
    CHECK(of(engine, Cause::kDmaEngines) == 50);
    CHECK(of(engine, Cause::kHbm) == 200);
    CHECK(of(engine, Cause::kWaitDma) == 800);
    CHECK(of(engine, Cause::kSemaphore) == 70);
    CHECK(of(engine, Cause::kBusy) == 80);
    CHECK(of(queue, Cause::kHbm) == 200);
    CHECK(of(queue, Cause::kBusy) == 800);
    CHECK(of(queue, Cause::kDmaEngines) == 50);
    CHECK(of(queue, Cause::kFixed) == 100 + 50);  // before the first packet, after the last
    CHECK(of(queue, Cause::kWaitEngine) == 200);
    CHECK(of(queue, Cause::kEnd) == 100);
  }
  {
    const auto [engine, queue] = charges_of_transfer(isa::Space::kSbuf, isa::Space::kHbm);
    CHECK(of(engine, Cause::kDmaLatency) == 70);
    CHECK(of(engine, Cause::kDmaEngines) == 80);
    CHECK(of(engine, Cause::kHbm) == 0);
    CHECK(of(engine, Cause::kWaitDma) == 1000);
    CHECK(of(queue, Cause::kHbm) == 0);
    CHECK(of(queue, Cause::kBusy) == 1000);
  }
}

namespace {

Fs end_of(const TraceFile& trace, const models::Config& config) {
  return simulate(*trace.program, config, nullptr).end;
}

const WhatIf& predicted(const std::vector<WhatIf>& changes, const std::string& words) {
  const auto found = std::find_if(changes.begin(), changes.end(), [&](const WhatIf& w) {
    return w.change.find(words) != std::string::npos;
  });
  REQUIRE(found != changes.end());
  return *found;
}

}  // namespace

TEST_CASE("predicted gains are those of the changed config") {
  const TraceFile trace = read_trace(source_folder() + "/traces/matmul_psum.jsonl");
  const models::Config config = load_config("trn2");
  const Fs end = end_of(trace, config);
  const auto changes = what_if(*trace.program, config, end, {});
  REQUIRE(changes.size() > 3);
  CHECK(std::is_sorted(changes.begin(), changes.end(),
                       [](const WhatIf& a, const WhatIf& b) { return a.gain > b.gain; }));
  // As a user would change it: by --set.
  const auto check = [&](const std::string& words, const std::vector<std::string>& set) {
    INFO(words);
    const WhatIf& w = predicted(changes, words);
    CHECK(w.end == end_of(trace, load_config("trn2", set)));
    CHECK(w.gain == Approx(1 - static_cast<double>(w.end) / static_cast<double>(end)));
  };
  check("four queues", {"compiler.dma_queues_per_engine=4"});
  check("utilisation limit", {"throttle.enabled=false"});
  check("DMA were twice as fast",
        {"dma.bytes_per_ns=" + std::to_string(2 * config.dma.bytes_per_ns),
         "dma.packet_gap=" + std::to_string(models::to_ns(config.dma.packet_gap) / 2),
         "dma.store_floor=" + std::to_string(models::to_ns(config.dma.store_floor) / 2),
         "dma.load_floor=" + std::to_string(models::to_ns(config.dma.load_floor) / 2)});
}

TEST_CASE("a run whose time depends on values is simulated with them") {
  const TraceFile trace = read_trace(source_folder() + "/traces/gather_loop.jsonl");
  const models::Config config = load_config("trn2");
  const MakeMemory fresh = [&] {
    auto memory = std::make_unique<isa::Memory>(*trace.program);
    load_inputs(trace, *memory);
    return memory;
  };
  const auto memory = fresh();
  const Fs end = simulate(*trace.program, config, memory.get()).end;
  models::Config four = config;
  four.compiler.dma_queues_per_engine = 4;
  const auto again = fresh();
  const Fs with_four = simulate(*trace.program, four, again.get()).end;
  CHECK(predicted(what_if(*trace.program, config, end, fresh), "four queues").end == with_four);
}
