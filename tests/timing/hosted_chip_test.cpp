// Tests a chip within another SystemC design: at 1 fs and at coarser resolutions its times are
// those of a run by itself.
#include "models/hosted_chip.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/config/config_json.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/timing/host.hpp"
#include "tests/timing/tied_programs.hpp"

using namespace nkisim;
using namespace nkisim::models;
using namespace nkisim::test;
using PB = test::ProgramBuilder;

namespace {

// A module of the host's: counts edges of 7 ns.
struct HostModule : sc_core::sc_module {
  explicit HostModule(const sc_core::sc_module_name& name) : sc_module(name) {
    SC_HAS_PROCESS(HostModule);
    SC_METHOD(edge);
    sensitive << again;
  }
  void edge() {
    ++edges;
    if (edges < 100) again.notify(7, sc_core::SC_NS);
  }
  int edges = 0;
  sc_core::sc_event again;
};

// The moment of an event in the host's time.
struct WhenFinished : sc_core::sc_module {
  WhenFinished(const sc_core::sc_module_name& name, const HostedChip& chip) : sc_module(name) {
    SC_HAS_PROCESS(WhenFinished);
    SC_METHOD(note);
    sensitive << chip.finished_event();
    dont_initialize();
  }
  void note() {
    at = sc_core::sc_time_stamp();
    ++times;
  }
  sc_core::sc_time at;
  int times = 0;
};

// Calls once, at 500 ns.
struct Caller : sc_core::sc_module {
  Caller(const sc_core::sc_module_name& name, std::function<void()> call)
      : sc_module(name), what(std::move(call)) {
    SC_HAS_PROCESS(Caller);
    SC_METHOD(act);
    sensitive << at;
    dont_initialize();
    at.notify(500, sc_core::SC_NS);
  }
  void act() { what(); }
  std::function<void()> what;
  sc_core::sc_event at;
};

// Two dependent copies on VectorE and a store.
PB copies() {
  PB b;
  const auto x = b.sbuf("x", isa::Dtype::kFloat32, {128, 480}),
             y = b.sbuf("y", isa::Dtype::kFloat32, {128, 480});
  const auto out = b.hbm("out", isa::Dtype::kFloat32, {128, 480});
  for (const auto& [to, from] : {std::pair(y, x), std::pair(x, y)}) {
    b.op("tensor_copy", {{"dst", PB::arg(b.all(to))}, {"src", PB::arg(b.all(from))}},
         isa::Engine::kVector);
  }
  b.op("dma_copy", {{"dst", PB::arg(b.all(out))}, {"src", PB::arg(b.all(x))}});
  return b;
}

}  // namespace

TEST_CASE("ranks and cores in a host's context have the times of a run at 1 fs to 1 ps") {
  const bool several = GENERATE(false, true);
  const double resolution_fs = GENERATE(1., 10., 1000.);
  const Config config =
      several ? load_config("trn2", {"hbm.bytes_per_ns=300"}) : load_config("trn1");
  for (unsigned seed = 1; seed <= 12; ++seed) {
    const std::vector<TraceFile> traces = programs_of(seed, several);
    isa::World world;
    world.ranks = static_cast<int>(traces.size());
    std::vector<Times> times, hosted_times;
    const std::vector<RunResult> alone = run_world(setups_of(traces, times), config, world);
    Host host(resolution_fs);
    const HostModule counter("counter");
    HostedChip chip("device", setups_of(traces, hosted_times), config, world);
    host.run();
    INFO("seed " << seed << " at " << resolution_fs << " fs");
    CHECK(chip.finished());
    CHECK(sorted(hosted_times) == sorted(times));
    const std::vector<RunResult> results = chip.outcome();
    REQUIRE(results.size() == alone.size());
    for (std::size_t r = 0; r < alone.size(); ++r) {
      CHECK(results[r].end == alone[r].end);
      CHECK(results[r].instructions == alone[r].instructions);
      CHECK_FALSE(results[r].stopped);
    }
    CHECK(counter.edges == 100);
  }
}

// The end of the program lies within the picosecond before the tick.
TEST_CASE("events fall on the next tick of the host") {
  PB b = copies();
  const Config config = load_config("trn2", {"dma.semaphore_latency=100.000123"});
  const Fs end = run(b.program(), config, nullptr, {}).end;
  REQUIRE(end % 1000 != 0);
  for (const Fs tick : {1, 100, 1000}) {
    Host host(static_cast<double>(tick));
    HostedChip chip("chip", b.program(), config);
    const WhenFinished when("when", chip);
    host.run();
    CHECK(when.times == 1);
    CHECK(chip.outcome().front().end == end);
    CHECK(static_cast<Fs>(when.at.value()) == (end + tick - 1) / tick);
  }
}

TEST_CASE("a coarser resolution is one error when elaboration ends") {
  PB b = copies();
  const Config config = load_config("trn2");
  Host host(1e4);
  HostedChip chip("chip", b.program(), config);
  CHECK(PB::error_of([&] { host.run(); }) ==
        "SystemC's time resolution is 10 ps; 1 fs to 1 ps, for a chip in the same context is "
        "required");
}

TEST_CASE("two chips and their host are in one hierarchy and go on together") {
  PB b = copies();
  const Config config = load_config("trn2");
  const Fs end = run(b.program(), config, nullptr, {}).end;
  Host host(1000);
  HostModule counter("counter");
  HostedChip first("first", b.program(), config), second("second", b.program(), config);
  host.run(sc_core::sc_time(100, sc_core::SC_NS));
  CHECK_FALSE(first.finished());
  CHECK(first.outcome().front().stopped);
  CHECK(counter.edges == 15);  // at 0, 7, ... 98
  host.run();
  CHECK(first.outcome().front().end == end);
  CHECK(second.outcome().front().end == end);
  CHECK(std::string(first.core().engine(isa::Engine::kVector).name()) == "first.rank0.nc0.vector");
  CHECK(sc_core::sc_find_object("second.chip.hbm0") != nullptr);
}

// A library call within a process of the host has a context of its own.
TEST_CASE("a run within the host's simulation leaves the chip as it is") {
  PB b = copies();
  const Config config = load_config("trn2");
  const Fs end = run(b.program(), config, nullptr, {}).end;
  Host host(1000);
  HostedChip chip("chip", b.program(), config);
  Fs within = 0;
  const Caller caller("caller", [&] { within = run(b.program(), config, nullptr, {}).end; });
  host.run();
  CHECK(within == end);
  CHECK(chip.outcome().front().end == end);
}

TEST_CASE("a host's reports reach its own handler while a chip runs, and its context stays") {
  using Handler = sc_core::sc_report_handler;
  static int seen = 0;
  const auto before =
      Handler::set_handler([](const sc_core::sc_report&, const sc_core::sc_actions&) { ++seen; });
  PB b = copies();
  const Config config = load_config("trn2");
  Host host(1000);
  const sc_core::sc_simcontext* context = sc_core::sc_get_curr_simcontext();
  HostedChip chip("chip", b.program(), config);
  const Caller caller("caller", [&] {
    CHECK_FALSE(chip.finished());
    CHECK(sc_core::sc_get_curr_simcontext() == context);
    SC_REPORT_WARNING("host", "seen");
  });
  host.run();
  CHECK(chip.finished());
  CHECK(seen == 1);
  CHECK(Handler::set_handler(before) != before);
}

TEST_CASE("a hosted chip computes values") {
  PB b;
  const auto x = b.sbuf("x", isa::Dtype::kFloat32, {128, 4});
  const auto out = b.hbm("out", isa::Dtype::kFloat32, {128, 4});
  b.op("memset", {{"dst", PB::arg(b.all(x))}, {"value", PB::arg(2.5)}});
  b.op("dma_copy", {{"dst", PB::arg(b.all(out))}, {"src", PB::arg(b.all(x))}});
  isa::Memory memory(b.program());
  const Config config = load_config("trn2");
  Host host(1000);
  HostedChip chip("chip", b.program(), config, &memory);
  host.run();
  CHECK_FALSE(chip.outcome().front().stopped);
  std::vector<float> values(128 * 4);
  memory.read(out, std::as_writable_bytes(std::span(values)));
  CHECK(values == std::vector<float>(128 * 4, 2.5F));
}

TEST_CASE("a deadlock on a hosted chip is the error of a run") {
  const std::string text =
      R"({"nisa": 1, "target": "trn2", "name": "stuck", "semaphores": "explicit"})"
      "\n"
      R"({"tensor": {"name": "x", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": 0}})"
      "\n"
      R"({"i": "memset", "engine": "vector", "dst": "x", "value": 1, "wait": [[5, ">=", 1]]})"
      "\n";
  const TraceFile trace = read_trace_text(text, "stuck.jsonl");
  const Config config = load_config("trn2");
  const auto message = [](const std::string& engine) {
    return "deadlock: " + engine + " waits for S[5]>=1 (it is 0) at line 3 (memset)";
  };
  CHECK(PB::error_of([&] { (void)run(*trace.program, config, nullptr, {}); }) ==
        message("rank0.nc0.vector"));
  Host host(1);
  HostedChip chip("chip", *trace.program, config);
  const WhenFinished when("when", chip);
  host.run();
  CHECK(when.times == 1);
  CHECK(PB::error_of([&] { (void)chip.outcome(); }) == message("chip.rank0.nc0.vector"));
}
