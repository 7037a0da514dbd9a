// Tests the compiler as a whole: its switches, and its effect on programs of the Python front end.
#include "compiler/pipeline.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "src/run/compile_trace.hpp"
#include "src/trace/trace_reader.hpp"
#include "src/trace/trace_writer.hpp"

using namespace nkisim;
using Catch::Matchers::Contains;
using compiler::Switch;

namespace {

constexpr auto kNothing = [](const Switch&) -> std::optional<std::string> { return std::nullopt; };

const models::Config& no_config() {
  throw isa::Error(isa::Rule::internal_error, "no costs are needed");
}

compiler::Chosen choose(const std::string& name, const std::string& value) {
  return [=](const Switch& s) -> std::optional<std::string> {
    return s.name == name ? std::optional(value) : std::nullopt;
  };
}

compiler::CompilerOptions in_order() {
  auto options = compiler::kernel_options(kNothing);
  options.schedule = "program";
  return options;
}

TraceFile recorded(const std::string& lines, const std::string& header = "") {
  return read_trace_text(
      R"({"nisa": 1, "target": "trn2", "addresses": "open")" + header + "}\n" +
          R"({"tensor": {"name": "x", "dtype": "float32", "shape": [128, 64], "role": "input"}}
{"tensor": {"name": "y", "dtype": "float32", "shape": [128, 64], "role": "output"}}
)" + lines,
      "k.jsonl");
}

std::string sbuf(const std::string& name, int columns, const std::string& more = "") {
  return R"({"tensor": {"name": ")" + name +
         R"(", "space": "sbuf", "dtype": "float32", "shape": [128, )" + std::to_string(columns) +
         "]" + more + "}}\n";
}

std::string copy(const std::string& dst, const std::string& src) {
  return R"({"i": "dma_copy", "dst": ")" + dst + R"(", "src": ")" + src + "\"}\n";
}

}  // namespace

TEST_CASE("switches come from the table", "[pipeline]") {
  CHECK(compiler::kernel_options(kNothing).schedule == "list");
  CHECK(compiler::trace_options(kNothing).schedule == "program");
  CHECK(compiler::trace_options(kNothing).dma_queues == "one");
  CHECK(compiler::kernel_options(choose("reuse", "none")).reuse == "none");
  CHECK_THROWS_WITH(compiler::kernel_options(choose("schedule", "fast")),
                    Contains("schedule is 'fast'; one of list, program is required"));
  setenv("NKISIM_DMA_QUEUES", "software", 1);
  CHECK(compiler::kernel_options(kNothing).dma_queues == "software");
  CHECK(compiler::kernel_options(choose("dma_queues", "one")).dma_queues == "one");
  CHECK(compiler::trace_options(kNothing).dma_queues == "one");
  unsetenv("NKISIM_DMA_QUEUES");
  for (const Switch& s : compiler::switches()) {
    INFO(s.name);
    CHECK(std::count(s.choices.begin(), s.choices.end(), s.of_trace) == 1);
  }
}

namespace {

// The meaning of every auto, in the table's order.
std::string automatic(const char* target, bool legacy, const std::string& descriptors = "") {
  const isa::Program program(*isa::find_machine(target));
  auto options = compiler::kernel_options(kNothing);
  if (!descriptors.empty()) options.descriptors = descriptors;
  options = compiler::resolved(options, {true, legacy}, program);
  std::string out;
  for (const Switch& s : compiler::switches()) {
    if (s.choices.front() == "auto") out.append(out.empty() ? "" : " ").append(options.*s.value);
  }
  return out;
}

}  // namespace

// Written down by hand from docs/compiler.md: loads, dma_queues, rename, share, engines, casts,
// merge, rows, transfers, spill.
TEST_CASE("the switch value auto is fixed by API and generation", "[pipeline]") {
  for (const char* target : {"trn1", "inf2", "trn2", "trn3"}) {
    INFO(target);
    const bool first = target == std::string("trn1") || target == std::string("inf2");
    CHECK(automatic(target, false) == "needed software whole none default dma none none none none");
    CHECK(automatic(target, true) ==
          (first ? "program software loads parts scalar engine none none none latest"
                 : "program software loads parts load engine copies merge merge latest"));
  }
}

TEST_CASE("static descriptors leave no DMA to GpSimd and none to merge", "[pipeline]") {
  CHECK(automatic("trn2", true, "static") ==
        "program split loads parts load engine copies merge none latest");
  CHECK(automatic("trn2", false, "static") ==
        "needed split whole none default dma none none none none");
}

TEST_CASE("a program with a loop keeps dynamic descriptors", "[pipeline]") {
  TraceFile trace = recorded(
      "{\"i\": \"loop_begin\", \"register\": \"r0\", \"start\": 0, \"stop\": 4, \"step\": 1}\n"
      "{\"i\": \"loop_end\"}\n");
  auto options = compiler::kernel_options(choose("descriptors", "static"));
  CHECK(compiler::resolved(options, {true, false}, *trace.program).descriptors == "dynamic");
}

TEST_CASE("a chosen switch stays, as a value and as text", "[pipeline]") {
  const isa::Program program(*isa::find_machine("trn2"));
  for (const Switch& s : compiler::switches()) {
    for (const std::string_view choice : s.choices) {
      if (choice == "auto") continue;
      INFO(s.name << '=' << choice);
      auto options = compiler::kernel_options(choose(std::string(s.name), std::string(choice)));
      options = compiler::resolved(options, {true, true}, program);
      CHECK(options.*s.value == choice);
    }
  }
  auto options = compiler::resolved(compiler::kernel_options(choose("engines", "scalar")),
                                    {true, false}, program);
  const compiler::Choices choices = compiler::choices_of(options);
  CHECK(choices.engines == compiler::Engines::k_scalar);
  CHECK(choices.dma_queues == compiler::DmaQueues::k_software);
  CHECK(choices.over_capacity == compiler::OverCapacity::k_no);
  CHECK(name(choices.engines) == "scalar");
}

TEST_CASE("tensors without addresses get them, given addresses stay", "[pipeline]") {
  TraceFile trace = recorded(sbuf("a", 64) + sbuf("b", 64, R"(, "address": 100)") + copy("a", "x") +
                             copy("b", "a") + copy("y", "b"));
  CHECK(trace.program->virtual_addresses());
  const auto done = compile_trace(trace, in_order(), true, no_config);
  CHECK_FALSE(trace.program->virtual_addresses());
  CHECK(trace.program->tensors()[3].address == 100);
  CHECK(trace.program->tensors()[2].address == 384);  // 256 bytes; 100 to 356 are taken
  CHECK(done.changed("place") == 1);
  CHECK(done.changed("queues") == 2);  // load and store are software DMAs
  CHECK_THAT(format_trace(trace, TraceForm::kText), !Contains("open"));
}

TEST_CASE("a tensor allocated before a loop lives through the whole loop", "[pipeline]") {
  const std::string loop =
      R"({"i": "loop_begin", "register": "r0", "start": 0, "stop": 4, "step": 1})";
  const std::string body = copy("a", "x") + loop + "\n" + copy("b", "a") + copy("y", "b") +
                           R"({"i": "loop_end"})" + "\n";
  for (const std::string born : {"", R"(, "born": 2)"}) {
    TraceFile trace = recorded(sbuf("a", 64) + sbuf("b", 64, born) + body);
    const std::string text = format_trace(trace, TraceForm::kText);
    CHECK((text.find("\"born\":2") != std::string::npos) == !born.empty());
    const std::string binary = format_trace(trace, TraceForm::kBinary);
    CHECK(format_trace(read_trace_text(binary, "k.nisa"), TraceForm::kText) == text);
    (void)compile_trace(trace, in_order(), true, no_config);
    CHECK(trace.program->tensors()[2].address != trace.program->tensors()[3].address);
  }
  TraceFile late = recorded(sbuf("a", 64) + sbuf("b", 64, R"(, "born": 3)") + body);
  CHECK_THROWS_WITH(compile_trace(late, in_order(), true, no_config),
                    Contains("tensor b is born at instruction 3; one of at most 2"));
}

TEST_CASE("engines that a kernel leaves open stay open in its saved program", "[pipeline]") {
  const TraceFile trace =
      recorded(sbuf("a", 64) + copy("a", "x") +
               R"({"i": "dma_copy", "engine": "scalar", "dst": "y", "src": "a"})" + "\n");
  for (const TraceForm form : {TraceForm::kText, TraceForm::kBinary}) {
    const TraceFile again = read_trace_text(format_trace(trace, form), "again");
    CHECK(again.open);
    CHECK(again.program->insts()[0].engine_open);
    CHECK_FALSE(again.program->insts()[1].engine_open);
  }
}

TEST_CASE("statements of a program file about itself are checked", "[pipeline]") {
  const std::string forward =
      R"({"i": "tensor_copy", "dst": "a", "src": "b", "forward": true, "loc": "k.py:7"})"
      "\n";
  TraceFile wrong = recorded(sbuf("a", 64) + sbuf("b", 64) + copy("b", "x") + forward);
  CHECK_THROWS_WITH(compile_trace(wrong, in_order(), true, no_config),
                    Contains("forward is true; a copy of a whole PSUM tensor"));
  CHECK_THROWS_WITH(recorded("", R"(, "semaphores": "explicit")"), Contains("derived is required"));
  CHECK_THROWS_WITH(recorded("", R"(, "api": "cuda")"), Contains("header.api"));
  TraceFile raw = recorded(
      sbuf("a", 64) +
      R"({"i": "memset", "dst": {"space": "sbuf", "address": 0, "partitions": 128, "ap": [[1, 8]], "dtype": "float32"}, "value": 0})"
      "\n");
  CHECK_THROWS_WITH(compile_trace(raw, in_order(), true, no_config), Contains("raw memory"));
}

TEST_CASE("a program that fits in no order is an error, or exceeds the memory on request",
          "[pipeline]") {
  const std::string lines = sbuf("a", 40000) + sbuf("b", 40000) +
                            R"({"i": "memset", "dst": "a", "value": 0})"
                            "\n"
                            R"({"i": "tensor_copy", "dst": "b", "src": "a"})"
                            "\n"
                            R"({"i": "tensor_copy", "dst": "a", "src": "b"})"
                            "\n";
  TraceFile full = recorded(lines);
  CHECK_THROWS_WITH(compile_trace(full, in_order(), true, no_config),
                    Contains("SBUF is full: b needs 160000 bytes per partition while 1 other "
                             "tensors are live (320000 bytes together, 229376 exist)"));
  TraceFile legacy = recorded(lines, R"(, "api": "neuronxcc")");
  const auto done = compile_trace(legacy, in_order(), true, no_config);
  REQUIRE(done.overflow);
  CHECK_THAT(done.overflow->message(), Contains("SBUF is full"));
  CHECK(done.peaks.at(0).bytes == 320000);
  auto beyond = in_order();
  beyond.over_capacity = "yes";
  TraceFile asked = recorded(lines);
  CHECK_FALSE(compile_trace(asked, beyond, true, no_config).overflow);
  beyond.over_capacity = "warn";
  TraceFile warned = recorded(lines);
  CHECK(compile_trace(warned, beyond, true, no_config).overflow);
}

TEST_CASE("a compiled trace is beyond the memory if that was asked for or happened", "[pipeline]") {
  const auto add_beyond = [](const TraceFile& trace) {
    isa::Tensor more;
    more.name = "more";
    more.space = isa::Space::kSbuf;
    more.dtype = isa::Dtype::kFloat32;
    more.shape = {128, 16};
    more.address = 229376 - 32;  // 64 bytes, half of them beyond the end
    trace.program->add_tensor(more);
  };
  const std::string small = sbuf("a", 64) + copy("a", "x") + copy("y", "a");
  TraceFile usual = recorded(small);
  (void)compile_trace(usual, in_order(), true, no_config);
  CHECK_THROWS_WITH(add_beyond(usual), Contains("tensor more"));
  auto beyond = in_order();
  beyond.over_capacity = "yes";
  TraceFile asked = recorded(small);
  (void)compile_trace(asked, beyond, true, no_config);
  CHECK_NOTHROW(add_beyond(asked));
  const std::string full = sbuf("a", 40000) + sbuf("b", 40000) +
                           R"({"i": "memset", "dst": "a", "value": 0})"
                           "\n"
                           R"({"i": "tensor_copy", "dst": "b", "src": "a"})"
                           "\n";
  TraceFile legacy = recorded(full, R"(, "api": "neuronxcc")");
  REQUIRE(compile_trace(legacy, in_order(), true, no_config).overflow);
  CHECK_NOTHROW(add_beyond(legacy));
}

TEST_CASE("a store's cast stays on the rows that it stores", "[pipeline]") {
  TraceFile trace = read_trace_text(
      R"({"nisa": 1, "target": "trn2", "addresses": "open", "api": "neuronxcc"}
{"tensor": {"name": "x", "dtype": "float32", "shape": [128, 64], "role": "input"}}
{"tensor": {"name": "y", "dtype": "bfloat16", "shape": [32, 64], "role": "output"}}
)" + sbuf("a", 64) +
          copy("a", "x") + copy("y", R"(a[32:64, :])"),
      "k.jsonl");
  const auto done = compile_trace(trace, in_order(), true, no_config);
  CHECK(done.changed("casts") == 1);
  const isa::Tensor& narrow = trace.program->tensors().back();
  CHECK(narrow.dtype == isa::Dtype::kBfloat16);
  CHECK(narrow.partition == 32);
  CHECK(narrow.shape == std::vector<std::int64_t>{32, 64});
}

namespace {

// Two products leave PSUM for the halves of one tile; `more` follows.
TraceFile two_products(const std::string& more) {
  const auto psum = [](const std::string& name) {
    return R"({"tensor": {"name": ")" + name +
           R"(", "space": "psum", "dtype": "float32", "shape": [64, 32]}})" + "\n";
  };
  const auto product = [](const std::string& dst) {
    return R"({"i": "nc_matmul", "dst": ")" + dst +
           R"(", "stationary": "a", "moving": "a[:, 0:32]", "accumulate": false})" + "\n";
  };
  const auto leave = [](const std::string& src, const std::string& part) {
    return R"({"i": "tensor_copy", "dst": "s[:, )" + part + R"(]", "src": ")" + src +
           R"(", "loc": "k.py:9"})" + "\n";
  };
  std::string lines =
      sbuf("a", 64) + psum("p") + psum("q") +
      R"({"tensor": {"name": "s", "space": "sbuf", "dtype": "float32", "shape": [64, 64]}})" +
      "\n" + copy("a", "x") + product("p") + leave("p", "0:32") + product("q") +
      leave("q", "32:64");
  if (!more.empty()) lines += product(more);
  return recorded(lines + copy("y[0:64, :]", "s"), R"(, "api": "neuronxcc")");
}

}  // namespace

TEST_CASE("copies are merged whose products are not written again", "[pipeline]") {
  for (const std::string more : {"", "p", "q"}) {
    INFO(more);
    TraceFile trace = two_products(more);
    const auto done = compile_trace(trace, in_order(), true, no_config);
    CHECK((done.changed("merge") > 0) == more.empty());
  }
}
