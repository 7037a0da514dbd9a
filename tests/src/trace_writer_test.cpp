// Tests that traces (files of NKI instructions) written as text or binary read back the same.
#include "src/trace/trace_writer.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "isa/program/disasm.hpp"
#include "src/trace/trace_reader.hpp"
#include "tests/support/sample_trace.hpp"

using namespace nkisim;
using Catch::Matchers::Contains;

namespace {

std::string text_of(const TraceFile& t) { return format_trace(t, TraceForm::kText); }

struct TempFolder {
  std::filesystem::path path;
  TempFolder()
      : path(std::filesystem::temp_directory_path() / ("nkisim_trace" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~TempFolder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("text, binary and text again are the same trace") {
  const TraceFile first = read_trace_text(kSampleTrace, "t.jsonl");
  REQUIRE(first.program->insts().size() == 9);
  const std::string canonical = text_of(first);
  INFO(canonical);
  const TraceFile second = read_trace_text(canonical, "t.jsonl");
  CHECK(text_of(second) == canonical);
  const std::string packed = format_trace(second, TraceForm::kBinary);
  CHECK(packed.size() < canonical.size());
  const TraceFile third = read_trace_text(packed, "t.nisa");
  CHECK(text_of(third) == canonical);
  CHECK(format_trace(third, TraceForm::kBinary) == packed);
  // The content itself, not only its text.
  const isa::Inst& a = first.program->insts()[2];
  const isa::Inst& b = third.program->insts()[2];
  REQUIRE(b.sync != nullptr);
  REQUIRE(b.sync->waits.size() == 2);
  CHECK(b.sync->waits[0].semaphore == 5);
  CHECK(b.sync->waits[1].value == -1);
  REQUIRE(b.sync->posts.size() == 4);
  CHECK(b.sync->posts[1].at_issue);
  CHECK(b.sync->posts[1].value == 16);
  CHECK(*b.label == *a.label);
  CHECK(b.loc.kernel_line == 42);
  CHECK(third.program->insts()[8].dma->packets[1].bytes == 4096);
  CHECK(third.source(0) == first.source(0));
  // Both forms number the same lines.
  CHECK(b.loc.trace_line == second.program->insts()[2].loc.trace_line);
}

TEST_CASE("files are recognised by content and written whole") {
  const TempFolder folder;
  const TraceFile trace = read_trace_text(kSampleTrace, "t.jsonl");
  for (const char* name : {"a.jsonl", "a.nisa", "a.jsonl.gz", "a.nisa.gz"}) {
    INFO(name);
    const std::filesystem::path path = folder.path / name;
    write_trace(trace, path.string());
    const std::filesystem::path disguised = folder.path / "other.txt";
    std::filesystem::copy_file(path, disguised, std::filesystem::copy_options::overwrite_existing);
    CHECK(text_of(read_trace(disguised.string())) == text_of(trace));
  }
  CHECK_THROWS_WITH(write_trace(trace, (folder.path / "no" / "a.nisa").string()),
                    Contains("cannot be written"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& f : std::filesystem::directory_iterator(folder.path)) ++files;
  CHECK(files == 5);
}

TEST_CASE("damaged files are one clear error") {
  const TempFolder folder;
  const TraceFile trace = read_trace_text(kSampleTrace, "t.jsonl");
  const auto damaged = [&](const char* name, auto&& damage) {
    const std::string path = (folder.path / name).string();
    write_trace(trace, path);
    std::ifstream in(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    damage(bytes);
    std::string message;
    try {
      (void)read_trace_text(bytes, name);
    } catch (const isa::Error& e) {
      message = e.what();
    }
    return message;
  };
  const auto cut = [](std::string& b) { b.resize(b.size() / 2); };
  CHECK_THAT(damaged("a.nisa", cut), Contains("a.nisa") && Contains("truncated"));
  CHECK_THAT(damaged("a.jsonl.gz", cut), Contains("truncated"));
  CHECK_THAT(damaged("a.nisa", [](std::string& b) { b[7] = 9; }), Contains("binary version 9"));
  CHECK_THAT(damaged("a.nisa", [](std::string& b) { b += "x"; }), Contains("after the end"));
  CHECK_THAT(damaged("a.jsonl.gz", [](std::string& b) { b[b.size() / 2] ^= 0x55; }),
             Contains("a.jsonl.gz"));
  CHECK_THROWS_WITH(read_trace("/nowhere/t.jsonl"), Contains("cannot be opened"));
  CHECK_THROWS_WITH(read_trace(folder.path.string()), Contains("is a directory"));
}

TEST_CASE("disassembly uses the profiler's operand syntax") {
  const TraceFile t = read_trace_text(kSampleTrace, "t.jsonl");
  const auto& insts = t.program->insts();
  CHECK(isa::disasm(*t.program, insts[2], t.semaphore_names) ==
        "TENSOR_TENSOR S[5] (Tensor)>=1 S[9]==-1 S[6]++@complete S[7]+=16@issue S[8]=0@complete "
        "S[8]--@complete dst=float32@0x0[1,0,0][512,1,1] data1=float32@0x2000800[1,0,0][512,1,1] "
        "data2=bfloat16@0x800[1,128,0][128,4,1] op=add channels=128");
  CHECK_THAT(isa::disasm(*t.program, insts[3]),
             Contains("data1=bfloat16@0x800+$R[4]*128[1,128,0][128,2,1]"));
  CHECK_THAT(isa::disasm(*t.program, insts[4]), Contains("data2=float32@0x20[-2,0,0][4,1,1]"));
  // PERF guide's LDWEIGHTS sample: src=bfloat16@0x2fef8[-1,0,0][..] counts down.
  CHECK(isa::disasm(*t.program, insts[6], t.semaphore_names) ==
        "LDWEIGHTS S[5] (Tensor)>=1 srcs=[bfloat16@0x1fa00[-1,0,0][64,1,1]] rows=128 columns=64 "
        "fp32_mode=low_high transpose=1");
  CHECK(isa::disasm(*t.program, insts[7]) == "SOMETHING_NEW function=a,b bytes=65536");
  CHECK_THAT(isa::disasm(*t.program, insts[8]), Contains("dst=float32@0x1000000[1,0,0][8,1,1]"));
}
