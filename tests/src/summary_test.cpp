#include "src/observers/summary.hpp"

#include <catch2/catch.hpp>
#include <sstream>

#include "src/config_json.hpp"
#include "src/observers/perfetto.hpp"

using namespace nkisim;

TEST_CASE("the union of intervals counts overlaps once") {
  std::vector<Interval> i = {{10, 20}, {0, 5}, {15, 30}, {30, 31}, {40, 41}};
  CHECK(merge_intervals(i) == 5 + 21 + 1);
  CHECK(i.size() == 3);
}

TEST_CASE("the summary speaks the profiler's units") {
  isa::Program program(*isa::find_machine("trn2"));
  Summary summary;
  summary.on_start(program, load_config("trn2"));
  summary.on_queue({0, 5, "qSyncDynamicHW"});
  isa::Inst inst;
  isa::Part part{.opcode = isa::Opcode::kMATMUL, .unit = isa::Unit::kTensorMatrix};
  part.flops = 2LL * 128 * 128 * 512;
  models::PartEvent p{.inst = &inst, .part = &part};
  p.start = models::from_ns(100);
  p.end = models::from_ns(600);
  p.busy_from = p.start;
  p.busy_to = p.end;
  summary.on_event(p);
  p.start = models::from_ns(500);
  p.end = models::from_ns(1100);
  part.features = isa::kFeatTranspose;
  summary.on_event(p);
  isa::DmaWork work{.bytes = 65536};
  models::DmaEvent d{.inst = &inst, .queue = 5, .mode = isa::DgeMode::kHwdge, .work = &work};
  d.first_packet = models::from_ns(200);
  d.last_packet = models::from_ns(400);
  d.packets = 16;
  summary.on_event(d);
  summary.on_end(0);
  const auto m = summary.metrics();
  CHECK(m["total_time"] == Approx(1e-6));
  CHECK(m["tensor_engine_active_time_percent"] == Approx(1.0));
  CHECK(m["tensor_engine_instruction_time"] == Approx(1.1e-6));
  CHECK(m["tensor_engine_instruction_count"] == 2);
  CHECK(m["hardware_flops"] == 2 * part.flops);
  CHECK(m["transpose_flops"] == part.flops);
  CHECK(m["hbm_read_bytes"] == 65536);
  CHECK(m["hardware_dynamic_dma_packet_count"] == 16);
  CHECK(m["dma_active_time_percent"] == Approx(0.2));
  CHECK(m["dma_queue_count"] == 1);
  CHECK(m["neuroncore_cycle_count"] == 1200);
  // 2 * 128 * 128 * 2.4e9 operations per second at most
  CHECK(m["mfu_estimated_percent"] == Approx(16777216 / (78.6432e12 * 1e-6)));
  CHECK(summary.json().begin().key() == "nc_0");
  std::ostringstream text;
  summary.print(text);
  CHECK(text.str().find("total_time") != std::string::npos);
  CHECK(text.str().find("1.00 us") != std::string::npos);
}

TEST_CASE("trn1's compute to bandwidth ratio is the profiler's 223.78") {
  isa::Program program(*isa::find_machine("trn1"));
  Summary summary;
  summary.on_start(program, load_config("trn1"));
  summary.on_end(0);
  CHECK(summary.metrics()["peak_flops_bandwidth_ratio"] == Approx(223.78).epsilon(1e-4));
}
