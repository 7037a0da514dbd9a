// Tests the import of a device profile (a neuron-profile capture) as a program: its instructions,
// the waits and DMA triggers that link them, and malformed or unfamiliar profiles.
#include "src/device_profile/profile_import.hpp"

#include <catch2/catch.hpp>

#include "isa/program/op_spec.hpp"
#include "src/config/config_json.hpp"
#include "src/device_profile/profile_diff.hpp"
#include "src/trace/trace_reader.hpp"
#include "src/trace/trace_writer.hpp"
#include "tests/support/source_folder.hpp"

namespace nkisim {
namespace {

const std::string kSmall = source_folder() + "/tests/src/data/profile_small.json";

const isa::Inst& inst(const ImportResult& r, std::size_t i) { return r.trace.program->insts()[i]; }

isa::Expansion expansion(const ImportResult& r, std::size_t i) {
  isa::Expansion e;
  isa::expand(inst(r, i), r.trace.program->machine(), e);
  return e;
}

bool warned(const ImportResult& r, std::string_view text) {
  for (const std::string& w : r.warnings) {
    if (w.find(text) != std::string::npos) return true;
  }
  return false;
}

std::string error_of(const std::string& json) {
  try {
    (void)read_hw_profile_text(json, "p.json");
  } catch (const isa::Error& e) {
    CHECK(e.code() == isa::ErrorCode::kBadInput);
    return e.what();
  }
  return {};
}

// One kernel instruction as a whole profile.
std::string profile_of(const std::string& fields) {
  return R"({"instruction": [{"subgroup": "Vector", "timestamp": 0, "duration": 1, "opcode": "COPY")" +
         fields + "}]}";
}

TEST_CASE("a profile's kernel becomes raw instructions") {
  const auto r = import_profile(read_hw_profile(kSmall), {});
  const isa::Program& p = *r.trace.program;
  CHECK(p.machine().target == "trn2");
  CHECK(p.timing_only());
  CHECK(p.explicit_semaphores());
  CHECK(p.cores() == 1);
  REQUIRE(p.insts().size() == 5);
  CHECK(r.left_out == 4);  // WRITE, EVENT_SEMAPHORE, the other core's DRAIN, SET_ORDERING_MODE
  CHECK(*inst(r, 0).label == "load#4");
  CHECK(*inst(r, 1).label == "max#5");
  CHECK(p.files().at(inst(r, 1).loc.kernel_file - 1) == "kernel.py");
  CHECK(inst(r, 1).loc.kernel_line == 12);
  CHECK(warned(r, "CC-core 8"));
  CHECK(warned(r, "collectives"));
  CHECK_FALSE(warned(r, "does not fit the target's memory"));

  const isa::Part reduce = expansion(r, 1).parts.front();
  CHECK(reduce.opcode == isa::Opcode::kTENSOR_REDUCE);
  CHECK(reduce.elements == 128);
  CHECK(reduce.partitions == 32);
  CHECK((reduce.features & isa::kFeatReduceAddMax) != 0);

  const isa::Part load = expansion(r, 3).parts.front();
  CHECK(load.unit == isa::Unit::kTensor);
  CHECK(load.elements == 128);
  const isa::Part multiply = expansion(r, 4).parts.front();
  CHECK(multiply.unit == isa::Unit::kTensorMatrix);
  CHECK(multiply.flops == 2 * 32 * 128 * 128);
  // 256 bytes for 128 columns: the result is 16 bits wide although the text does not say so.
  CHECK(multiply.psum_write_bytes == 128 * 128 * 2);
}

TEST_CASE("unknown opcodes are reported and run at the default cost") {
  const auto r = import_profile(read_hw_profile(kSmall), {});
  REQUIRE(r.unknown_opcodes.size() == 1);
  CHECK(r.unknown_opcodes.front() == std::pair<std::string, std::size_t>("FROBNICATE", 1));
  const TimedRun run = timed_run(r.trace, load_config("trn2"));
  REQUIRE(run.instructions.size() == 5);
  CHECK(run.instructions[2].opcode == "FROBNICATE");
  // VectorE's default: 152 ns and one element a cycle at 0.96 GHz.
  CHECK(run.instructions[2].duration == Approx(152 + 128 / 0.96));
}

TEST_CASE("DMA packets are matched to their trigger by their count") {
  const auto r = import_profile(read_hw_profile(kSmall), {});
  CHECK(r.transfers == 1);
  CHECK(r.packets == 3);
  const isa::DmaPlan& plan = *inst(r, 0).dma;
  CHECK(r.trace.program->queues().at(plan.queue_name) == "qSyncDynamicHW");
  CHECK(plan.semaphore == 8);
  CHECK(plan.increment == 16);
  REQUIRE(plan.packets.size() == 3);
  CHECK(plan.packets[0].engine == 0);
  CHECK(plan.packets[1].engine == 1);
  CHECK(plan.packets[2].engine == 1);
  const isa::DmaWork work = expansion(r, 0).dma;
  CHECK(work.dge == isa::DgeMode::kHwdge);
  CHECK(work.src == isa::Space::kHbm);
  CHECK(work.dst == isa::Space::kSbuf);
  CHECK(work.bytes == 3 * 512);
  CHECK(work.descriptors == 32);
  CHECK(work.descriptor_bytes == 512);

  const auto own = import_profile(read_hw_profile(kSmall),
                                  {.target = {}, .keep_preamble = false, .packets = false});
  CHECK(inst(own, 0).dma->packets.empty());
}

TEST_CASE(
    "semaphore counts from before the kernel are subtracted, and waits without an increment "
    "dropped") {
  const auto r = import_profile(read_hw_profile(kSmall), {});
  // S[6] is 2 when the kernel starts, and the kernel raises it once.
  REQUIRE(inst(r, 2).sync->waits.size() == 1);
  CHECK(inst(r, 2).sync->waits[0].value == 1);
  CHECK(warned(r, "S[6] starts at 2"));
  CHECK(inst(r, 4).sync == nullptr);
  CHECK(warned(r, "S[99]>=1"));
}

TEST_CASE("instructions of the runtime around a profiled kernel can be kept") {
  const auto r = import_profile(read_hw_profile(kSmall),
                                {.target = "trn2", .keep_preamble = true, .packets = true});
  CHECK(r.trace.program->insts().size() == 8);  // without the core that runs no kernel
  CHECK(warned(r, "runtime's own semaphores"));
  CHECK_NOTHROW(timed_run(r.trace, load_config("trn2")));
}

TEST_CASE("imported profiles read back from text and binary files") {
  const auto r = import_profile(read_hw_profile(kSmall), {});
  const std::string text = format_trace(r.trace, TraceForm::kText);
  const TraceFile again = read_trace_text(text, "again");
  CHECK(format_trace(again, TraceForm::kText) == text);
  const std::string binary = format_trace(r.trace, TraceForm::kBinary);
  CHECK(format_trace(read_trace_text(binary, "again"), TraceForm::kText) == text);
  const auto config = load_config("trn2");
  CHECK(timed_run(again, config).total() == timed_run(r.trace, config).total());
}

TEST_CASE("the state of PE throttling at the start is found in a profile") {
  const auto phase = throttle_phase(read_hw_profile(kSmall));
  REQUIRE(phase);
  CHECK(*phase == Approx(7000 - 3400));
}

TEST_CASE("malformed profiles are one clear error") {
  CHECK(error_of("").find("p.json is not JSON") == 0);
  CHECK(error_of("{\"instruction\": [").find("p.json is not JSON") == 0);
  CHECK(error_of("[1, 2]").find("p.json") == 0);
  CHECK(error_of("{}").find("no instruction table") != std::string::npos);
  CHECK(error_of(R"({"instruction": 5, "dma": {}})").find("no instruction table") !=
        std::string::npos);
  CHECK(error_of(R"({"instruction": [{"subgroup": "Vector", "duration": 1}]})") ==
        "p.json: instruction[0].timestamp is missing; a number is required");
  CHECK(error_of(R"({"instruction": [{"subgroup": "Vector", "timestamp": "x", "duration": 1}]})") ==
        "p.json: instruction[0].timestamp is \"x\"; a number is required");
  CHECK(error_of(R"({"instruction": [], "dma": [{"timestamp": 1}]})") ==
        "p.json: dma[0].duration is missing; a number is required");
}

TEST_CASE("profiles of other versions are read") {
  SECTION("no compiler_pc, no ids, texts for numbers, other names") {
    const auto r = import_profile(read_hw_profile_text(R"({"Instruction": [
          {"engine": "vector", "start_ts": "5", "duration_ns": "7", "opcode": "COPY"},
          {"timeline_track": "TensorMatrix", "start_ts": 9, "duration_ns": 7, "opcode": "MATMUL"},
          {"engine": "act", "start_ts": 9, "duration_ns": 7, "opcode": "DRAIN"}]})",
                                                       "p.json"),
                                  {});
    REQUIRE(r.trace.program->insts().size() == 2);
    CHECK(expansion(r, 1).parts.front().unit == isa::Unit::kTensorMatrix);
    CHECK(warned(r, "no instance type"));
  }
  SECTION("times in ticks, said by the summary") {
    const auto p = read_hw_profile_text(
        R"({"metadata": {"ticks_per_nanosec": 1000}, "summary": {"total_time": 1e-06},
            "instruction": [{"subgroup": "Sync", "timestamp": 0, "duration": 1000000}]})",
        "p.json");
    CHECK(p.instructions.front().duration == Approx(1000));
  }
  SECTION("operands outside the target's memory lose their address only") {
    const auto r = import_profile(
        read_hw_profile_text(
            profile_of(R"(, "operands": "src=fp32@0x3ffff[1][600] dst=fp32@0x0[1][600]")"),
            "p.json"),
        {});
    CHECK(expansion(r, 0).parts.front().elements == 600);
    CHECK(warned(r, "does not fit"));
  }
  SECTION("kernels on both cores") {
    const auto p = read_hw_profile_text(
        R"({"instruction": [
          {"subgroup": "Vector", "subgraph": "sg01", "timestamp": 0, "duration": 1, "compiler_pc": 1, "opcode": "COPY"},
          {"subgroup": "Vector", "subgraph": "sg00", "timestamp": 0, "duration": 1, "compiler_pc": 1, "opcode": "COPY"}]})",
        "p.json");
    CHECK(p.cores == std::vector<std::string>{"sg00", "sg01"});
    CHECK(import_profile(p, {}).trace.program->cores() == 2);
  }
  SECTION("a DMA of unknown opcode still moves data") {
    const auto r = import_profile(
        read_hw_profile_text(
            R"({"instruction": [{"subgroup": "Sync", "timestamp": 0, "duration": 1, "opcode": "DMA_STRANGE",
                "operands": "semaphore=3 sem_increment=16 src_elem_size=64 src_pattern=[64][16]"},
               {"subgroup": "Vector", "timestamp": 9, "duration": 1, "opcode": "COPY", "operands": "S[3]>=16"}]})",
            "p.json"),
        {});
    const TimedRun run = timed_run(r.trace, load_config("trn2"));
    CHECK(run.instructions.size() == 2);
    CHECK(run.packets.size() == 16);
  }
}

}  // namespace
}  // namespace nkisim
