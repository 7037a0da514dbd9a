// Tests the sums of a run's summary over cores and ranks.
#include "src/report/totals.hpp"

#include <catch2/catch.hpp>

#include "src/config/config_json.hpp"

using namespace nkisim;

namespace {

const models::Config& trn2() {
  static const models::Config config = load_config("trn2");
  return config;
}

struct TwoCores {
  isa::Program program{*isa::find_machine("trn2")};
  TwoCores() {
    program.add_tensor({.name = "t", .space = isa::Space::kSbuf, .core = 1, .shape = {128, 1}});
  }
};

// A summary and the path that it follows, as a run has them.
struct Watched {
  Summary summary = {};
  models::ObserverList all;
  explicit Watched(const isa::Program& program) : all({&path_, &summary}) {
    summary.follow(path_);
    all.start(program, trn2());
    for (int core = 0; core < program.cores(); ++core) {
      for (std::uint16_t q = 0; q <= isa::kEngineCount; ++q) {
        all.queue({core, q, "queue " + std::to_string(q)});
      }
    }
  }

 private:
  Accounting path_{Accounting::Keeps::kPath};
};

// A rank of two cores: core 0 works on the vector engine from 100 to 200 ns, core 1 on the tensor
// engine from `from` to `to`, `bytes` of DMA at its end.
Summary rank(const isa::Program& program, double from, double to, std::int64_t bytes) {
  Watched run(program);
  isa::Inst inst;
  isa::Part part{.opcode = isa::Opcode::kMEMSET, .unit = isa::Unit::kVector};
  models::PartEvent p{.inst = &inst, .part = &part};
  p.core = 0;
  p.start = models::from_ns(100);
  p.end = models::from_ns(200);
  run.all.send(p);
  part = {.opcode = isa::Opcode::kMATMUL, .unit = isa::Unit::kTensorMatrix};
  part.flops = 1 << 20;
  p.core = 1;
  p.start = p.busy_from = models::from_ns(from);
  p.end = p.busy_to = models::from_ns(to);
  run.all.send(p);
  isa::DmaWork work{.bytes = bytes};
  models::DmaEvent d{.inst = &inst, .queue = 5, .mode = isa::DgeMode::kHwdge, .work = &work};
  d.core = 1;
  d.first_packet = models::from_ns(to - 10);
  d.last_packet = models::from_ns(to);
  d.packets = 2;
  run.all.send(d);
  run.all.end({});
  return run.summary;
}

}  // namespace

TEST_CASE("a run lasts from the first start to the last end on any core of any rank") {
  const TwoCores two;
  const Summary first = rank(two.program, 200, 300, 100), second = rank(two.program, 400, 1100, 50);
  CHECK(latency(first) == models::from_ns(200));
  CHECK(latency(second) == models::from_ns(1000));  // no core is at work for longer than 700
  CHECK(second.metrics(0)["total_time"] == Approx(100e-9));
  CHECK(second.metrics(1)["total_time"] == Approx(700e-9));
  const Totals both({&first, &second, &first});  // the third rank is as the first
  CHECK(both.latency() == models::from_ns(1000));
  CHECK(both.latency_us() == Approx(1));
  CHECK(both.metrics()["total_time"] == Approx(1e-6));
}

TEST_CASE("totals add work and bytes and keep the longest activity") {
  const TwoCores two;
  const Summary first = rank(two.program, 200, 300, 100), second = rank(two.program, 400, 1100, 50);
  const auto m = Totals({&first, &second, &first}).metrics();
  CHECK(m["hardware_flops"] == 3 * (1 << 20));
  CHECK(m["matmul_instruction_count"] == 3);
  CHECK(m["dma_transfer_count"] == 3);
  CHECK(m["dma_transfer_total_bytes"] == 100 + 50 + 100);
  CHECK(m["tensor_engine_instruction_time"] == Approx((100 + 700 + 100) * 1e-9));
  CHECK(m["tensor_engine_active_time"] == Approx(700e-9));  // of the second rank's core 1
  CHECK(m["tensor_engine_active_time_percent"] == Approx(0.7));
  CHECK(m["vector_engine_active_time_percent"] == Approx(0.1));
  CHECK(m["total_active_time"] == Approx((200 + 700) * 1e-9));  // 100 to 300, 400 to 1100
  // 2 * 128 * 128 * 2.4e9 operations per second on each of six cores
  CHECK(m["mfu_estimated_percent"] == Approx(3 * 1048576.0 / (6 * 78.6432e12 * 1e-6)));
  CHECK_FALSE(m.contains("nc_idx"));
}

TEST_CASE("a run is bound by what its critical path is spent on, of the core that ends last") {
  const TwoCores two;
  const Summary late = rank(two.program, 400, 1100, 0), early = rank(two.program, 100, 150, 0);
  CHECK(Totals(late).bottleneck() ==
        "1 instruction of 0.700 us on TensorEngine, 100 % of the critical path: less work there, "
        "or on another engine, saves at most 100 %");
  CHECK(Totals(early).bound()->share.engine == isa::Engine::kVector);  // until 200 ns
  CHECK(Totals({&early, &late, &early}).bottleneck() == Totals(late).bottleneck());
}

TEST_CASE("the sync engine can bound a run") {
  isa::Program program(*isa::find_machine("trn2"));
  Watched run(program);
  isa::Inst inst;
  const isa::Part part{.opcode = isa::Opcode::kWRITE, .unit = isa::Unit::kSync};
  models::PartEvent p{.inst = &inst, .part = &part};
  p.core = 0;
  p.start = models::from_ns(0);
  p.end = models::from_ns(90);
  run.all.send(p);
  run.all.end({});
  CHECK(Totals(run.summary).bound()->cause == "1 instruction of 0.090 us on SyncEngine");
  CHECK(Totals(run.summary).bound()->gain == Approx(1));
  CHECK(Totals(run.summary).metrics() == run.summary.metrics());
}

TEST_CASE("a run without events takes no time") {
  const isa::Program program(*isa::find_machine("trn2"));
  Watched run(program);
  run.all.end({});
  CHECK(Totals(run.summary).latency() == 0);
  CHECK(Totals(run.summary).bottleneck() == "nothing ran");
}

TEST_CASE("a summary that follows no path has no bottleneck") {
  const isa::Program program(*isa::find_machine("trn2"));
  Summary summary;
  summary.on_start(program, trn2());
  summary.on_end({});
  nlohmann::ordered_json out;
  Totals(summary).put(out);
  CHECK((out.contains("latency_us") && out.contains("totals")));
  CHECK_FALSE((out.contains("bottleneck") || out.contains("bound") || out.contains("brief")));
}

TEST_CASE("a bottleneck is the same whether all causes are kept or the path alone") {
  const isa::Program program(*isa::find_machine("trn2"));
  const auto bound_of_run = [&](Accounting::Keeps keeps, int parts) {
    Accounting path(keeps);
    Summary summary;
    summary.follow(path);
    const models::ObserverList all({&path, &summary});
    all.start(program, trn2());
    for (std::uint16_t q = 0; q <= isa::kEngineCount; ++q) all.queue({0, q, "queue"});
    isa::Inst inst;
    isa::Part vector{.opcode = isa::Opcode::kMEMSET, .unit = isa::Unit::kVector},
        scalar{.opcode = isa::Opcode::kMEMSET, .unit = isa::Unit::kScalar};
    models::PartEvent p{.inst = &inst};
    for (int i = 0; i < parts; ++i) {  // the first half on one engine, the other on another
      p.part = 2 * i < parts ? &vector : &scalar;
      p.sequence = static_cast<std::uint64_t>(i);
      p.start = p.end;
      p.end += models::from_ns(1);
      if (2 * i == parts) {
        p.wait = {.producer_end = p.start,
                  .awake = p.start,
                  .producer = static_cast<models::QueueIndex>(isa::Engine::kVector),
                  .producer_sequence = p.sequence - 1};
      }
      all.send(p);
      p.wait = {};
    }
    all.end({p.end});
    return *summary.bound();
  };
  for (const int parts : {100, 300000}) {  // more than the path alone keeps of an engine
    const Bound some = bound_of_run(Accounting::Keeps::kPath, parts),
                every = bound_of_run(Accounting::Keeps::kAll, parts);
    CHECK(some.text() == every.text());
    CHECK(some.share.time == every.share.time);
    CHECK(some.share.count == every.share.count);
  }
}

TEST_CASE("long times are printed in milliseconds") {
  CHECK(nkisim::time_text(0.5) == "0.500 us");
  CHECK(nkisim::time_text(9999.9994) == "9999.999 us");
  CHECK(nkisim::time_text(10000) == "10.000 ms");
  CHECK(nkisim::time_text(71427.6) == "71.428 ms");
}
