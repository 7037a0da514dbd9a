// Tests the metrics of a run's summary against values worked out by hand.
#include "src/report/summary.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <sstream>

#include "src/config/config_json.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_declare.hpp"
#include "src/trace/trace_reader.hpp"
#include "tests/support/program_builder.hpp"

using namespace nkisim;

namespace {

const models::Config& machine(const char* target) {
  static const std::map<std::string, models::Config> kAll = {{"trn1", load_config("trn1")},
                                                             {"trn2", load_config("trn2")}};
  return kAll.at(target);
}

}  // namespace

TEST_CASE("the union of intervals counts overlaps once") {
  std::vector<Interval> i = {{10, 20}, {0, 5}, {15, 30}, {30, 31}, {40, 41}};
  CHECK(merge_intervals(i) == 5 + 21 + 1);
  CHECK(i.size() == 3);
}

TEST_CASE("the summary speaks the profiler's units") {
  isa::Program program(*isa::find_machine("trn2"));
  Summary summary;
  summary.on_start(program, machine("trn2"));
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
  summary.on_end({});
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

namespace {

constexpr double kMovedBytes = 262144 + 131072 + 65536;

// Two matrix operations, a dynamic load and store, and a static load of weights, in 1 us.
nlohmann::ordered_json metrics_of_one_run() {
  test::ProgramBuilder b;
  const auto role = [&](const char* name, isa::TensorRole r, std::int64_t bytes) {
    const auto id = b.hbm(name, isa::Dtype::kInt8, {1, bytes});
    b.program().set_role(id, r);
    return id;
  };
  role("x", isa::TensorRole::kInput, 40000);
  role("y", isa::TensorRole::kOutput, 20000);
  const auto w = role("w", isa::TensorRole::kConstant, 10000);
  const auto t = b.sbuf("t", isa::Dtype::kInt8, {1, 10000});
  const isa::Inst& load = b.op("dma_copy", {{"dst", test::ProgramBuilder::arg(b.all(t))},
                                            {"src", test::ProgramBuilder::arg(b.all(w))}});
  Summary summary;
  summary.on_start(b.program(), machine("trn2"));
  summary.on_queue({0, 5, "qSyncDynamicHW"});
  const auto ns = models::from_ns;
  // One multiply and one transpose, each 2 * 128 * 128 * 512 operations, from 100 to 1100 ns.
  isa::Inst inst;
  isa::Part part{.opcode = isa::Opcode::kMATMUL, .unit = isa::Unit::kTensorMatrix};
  part.flops = 2LL * 128 * 128 * 512;
  models::PartEvent p{.inst = &inst, .part = &part};
  p.start = p.busy_from = ns(100);
  p.end = p.busy_to = ns(600);
  summary.on_event(p);
  p.start = p.busy_from = ns(500);
  p.end = p.busy_to = ns(1100);
  part.features = isa::kFeatTranspose;
  summary.on_event(p);
  // A dynamic load and store, which overlap, and a static load of weights.
  const auto transfer = [&](isa::DgeMode mode, isa::DmaWork work, std::array<int, 3> when,
                            int packets) {
    models::DmaEvent d{.inst = &load, .queue = 5, .mode = mode, .work = &work};
    d.trigger_start = ns(when[0]);
    d.trigger_end = ns(when[0] + 20);
    d.first_packet = ns(when[1]);
    d.last_packet = ns(when[2]);
    d.packets = packets;
    summary.on_event(d);
  };
  using enum isa::Space;
  transfer(isa::DgeMode::kHwdge, {.src = kHbm, .dst = kSbuf, .bytes = 262144}, {150, 200, 400}, 16);
  transfer(isa::DgeMode::kSwdge, {.src = kSbuf, .dst = kHbm, .bytes = 131072}, {250, 300, 600}, 8);
  transfer(isa::DgeMode::kNone, {.src = kHbm, .dst = kSbuf, .bytes = 65536}, {650, 700, 800}, 4);
  summary.on_event(models::DmaLaneEvent{.start = ns(200), .end = ns(400)});
  summary.on_event(models::SemaphoreEvent{});
  summary.on_end({});
  return summary.metrics();
}

}  // namespace

TEST_CASE("every derived metric of one run, by hand: work and memory") {
  const auto m = metrics_of_one_run();
  const double bytes = kMovedBytes, bandwidth = 716e9, seconds = 1e-6;
  const double peak = 2 * 128 * 128 * 2.4e9, flops = 16777216;
  CHECK(m["hbm_read_bytes"] == 262144 + 65536);
  CHECK(m["hbm_write_bytes"] == 131072);
  CHECK(m["mbu_estimated_percent"] == Approx(bytes / (bandwidth * seconds)));
  CHECK(m["mbu_min_read_util_percent"] == Approx(50000 / (bandwidth * seconds)));
  CHECK(m["mfu_estimated_percent"] == Approx(flops / (peak * seconds)));
  CHECK(m["mfu_inst_estimated_percent"] == Approx(flops / (peak * seconds)));
  CHECK(m["hfu_estimated_percent"] == Approx(2 * flops / (peak * seconds)));
  CHECK(m["mm_arithmetic_intensity"] == Approx(flops / bytes));
  CHECK(m["peak_flops_bandwidth_ratio"] == Approx(peak / bandwidth));
  // Operations per byte are fewer than the ratio: the memory is the limit.
  const double reachable = flops / bytes / (peak / bandwidth);
  REQUIRE(reachable < 1);
  CHECK(m["mfu_max_achievable_estimated_percent"] == Approx(reachable));
  CHECK(m["mfu_inst_max_achievable_estimated_percent"] == Approx(reachable));
}

TEST_CASE("every derived metric of one run, by hand: DMA") {
  const auto m = metrics_of_one_run();
  CHECK(m["dma_transfer_time"] == Approx((250 + 350 + 150) * 1e-9));  // from each trigger's start
  CHECK(m["dma_transfer_count"] == 3);
  CHECK(m["dma_transfer_total_bytes"] == kMovedBytes);
  CHECK(m["dma_transfer_average_bytes"] == Approx(kMovedBytes / 3));
  CHECK(m["dma_active_time"] == Approx((400 + 100) * 1e-9));
  CHECK(m["dma_active_cycles"] == 600);  // of 1.2 GHz
  CHECK(m["dma_packet_time"] == Approx(200e-9));
  CHECK(m["dynamic_dma_active_time_percent"] == Approx(0.4));
  CHECK(m["dynamic_dma_packet_percent"] == Approx(24.0 / 28));
  CHECK(m["dynamic_dma_size_percent"] == Approx(393216 / kMovedBytes));
  CHECK(m["static_dma_packet_percent"] == Approx(4.0 / 28));
  CHECK(m["software_dynamic_dma_size_percent"] == Approx(131072 / kMovedBytes));
  CHECK(m["hardware_dynamic_dma_active_time_percent"] == Approx(0.2));
}

TEST_CASE("every derived metric of one run, by hand: sizes and counts") {
  const auto m = metrics_of_one_run();
  CHECK(m["weight_queue_bytes"] == 65536);
  CHECK(m["inputs_outputs_weights_size_bytes"] == 70000);
  CHECK(m["inputs_and_weights_size_bytes"] == 50000);
  CHECK(m["weight_size_bytes"] == 10000);
  CHECK(m["trace_count"] == 2 + 3 + 1);
  CHECK(m["total_row_count"] == 2 + 3 + 1 + 1);  // and the engine's share of a transfer
  CHECK(m["event_count"] == 1);
  CHECK(m["total_active_time_percent"] == Approx(1.0));
  // Metrics that are not modelled, or not known here, are present and zero.
  for (const char* key :
       {"model_flops", "mfu_hlo_estimated_percent", "mfu_hlo_max_achievable_estimated_percent",
        "spill_save_bytes", "spill_reload_bytes", "cc_op_count", "cc_cores_instruction_count"}) {
    INFO(key);
    CHECK(m.at(key) == 0);
  }
}

TEST_CASE("trn1's compute to bandwidth ratio is the profiler's 223.78") {
  isa::Program program(*isa::find_machine("trn1"));
  Summary summary;
  summary.on_start(program, machine("trn1"));
  summary.on_end({});
  CHECK(summary.metrics()["peak_flops_bandwidth_ratio"] == Approx(223.78).epsilon(1e-4));
}

TEST_CASE("bytes of spilled tiles are counted, and a saved trace knows them") {
  const std::string text = R"({"nisa": 1, "target": "trn2", "name": "t"}
{"tensor": {"name": "s", "space": "hbm", "shape": [128, 16], "dtype": "float32", "spill": true}}
{"tensor": {"name": "y", "space": "hbm", "shape": [128, 16], "dtype": "float32", "role": "output"}}
{"tensor": {"name": "t", "space": "sbuf", "shape": [128, 16], "dtype": "float32", "address": 0}}
{"i": "memset", "dst": "t", "value": 1, "engine": "vector"}
{"i": "dma_copy", "dst": "s", "src": "t"}
{"i": "dma_copy", "dst": "t", "src": "s"}
{"i": "dma_copy", "dst": "t", "src": "s"}
{"i": "dma_copy", "dst": "y", "src": "t"}
)";
  const TraceFile trace = read_trace_text(text, "t");
  Summary summary;
  (void)simulate(*trace.program, machine("trn2"), nullptr, {&summary});
  const auto m = summary.metrics();
  CHECK(m["spill_save_bytes"] == 8192);
  CHECK(m["spill_reload_bytes"] == 2 * 8192);
  CHECK(m["hbm_write_bytes"] == 2 * 8192);
  CHECK(format_tensor(trace, 0, {}).find(R"("spill":true)") != std::string::npos);
  CHECK(format_tensor(trace, 1, {}).find("spill") == std::string::npos);
  for (const char* other : {R"("role": "output", "spill": true)", R"("spill": 1)"}) {
    std::string wrong = text;
    wrong.replace(wrong.find(R"("spill": true)"), 13, other);
    CHECK_THROWS_AS(read_trace_text(wrong, "t"), isa::Error);
  }
}

TEST_CASE("bytes by kind of queue, and moves out of PSUM") {
  // 128 x 16 fp32: 8 KiB by a prepared queue, 8 KiB dynamic; a copy of 128 x 16 fp32 from PSUM.
  const TraceFile trace = read_trace_text(R"({"nisa": 1, "target": "trn2", "name": "t"}
{"tensor": {"name": "x", "space": "hbm", "shape": [128, 16], "dtype": "float32", "role": "input"}}
{"tensor": {"name": "w", "space": "hbm", "shape": [128, 16], "dtype": "float32", "role": "constant"}}
{"tensor": {"name": "y", "space": "hbm", "shape": [128, 16], "dtype": "float32", "role": "output"}}
{"tensor": {"name": "t", "space": "sbuf", "shape": [128, 16], "dtype": "float32", "address": 0}}
{"tensor": {"name": "u", "space": "sbuf", "shape": [128, 16], "dtype": "float32", "address": 64}}
{"tensor": {"name": "p", "space": "psum", "shape": [128, 16], "dtype": "float32", "address": 0}}
{"i": "dma_copy", "dst": "t", "src": "x", "dge_mode": "none"}
{"i": "dma_copy", "dst": "t", "src": "x"}
{"i": "dma_copy", "dst": "u", "src": "w", "dge_mode": "none"}
{"i": "tensor_copy", "dst": "p", "src": "t", "engine": "vector"}
{"i": "tensor_copy", "dst": "t", "src": "p", "engine": "vector"}
{"i": "dma_copy", "dst": "y", "src": "t", "dge_mode": "none"}
)",
                                          "t");
  Summary summary;
  const SimResult r = simulate(*trace.program, machine("trn2"), nullptr, {&summary});
  const auto m = summary.metrics();
  constexpr int kBytes = 128 * 16 * 4;
  CHECK(m["input_queue_bytes"] == kBytes);
  CHECK(m["weight_queue_bytes"] == kBytes);
  CHECK(m["output_queue_bytes"] == kBytes);
  CHECK(m["weight_size_bytes"] == kBytes);
  CHECK(m["hbm_read_bytes"] == 3 * kBytes);
  CHECK(m["psum_read_sbuf_write_count"] == 1);
  CHECK(m["psum_read_sbuf_write_bytes"] == kBytes);
  CHECK(m["trace_count"] == r.instructions + 4);  // and the four transfers
  CHECK(m["event_count"] == 0);
  CHECK(m["total_exec_time"] == m["total_time"]);
  CHECK_FALSE(m.contains("partial"));
}

TEST_CASE("set-up opcodes are outside total_exec_time, and a stopped run says so") {
  isa::Program program(*isa::find_machine("trn2"));
  Summary summary;
  summary.on_start(program, machine("trn2"));
  isa::Inst inst;
  isa::Part part{.opcode = isa::Opcode::kDRAIN, .unit = isa::Unit::kVector};
  models::PartEvent p{.inst = &inst, .part = &part};
  p.end = models::from_ns(50);
  summary.on_event(p);
  part.opcode = isa::Opcode::kTENSOR_TENSOR;
  p.start = models::from_ns(100);
  p.end = models::from_ns(400);
  summary.on_event(p);
  summary.on_end({models::from_ns(400), true});
  const auto m = summary.metrics();
  CHECK(m["total_time"] == Approx(400e-9));
  CHECK(m["total_exec_time"] == Approx(300e-9));
  CHECK(m["partial"] == true);
}
