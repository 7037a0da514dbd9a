// Tests the compiler pass that drops a cast on trn1 if only a sum reads its result.
#include <catch2/catch.hpp>

#include "src/config/config_json.hpp"
#include "src/run/compile_trace.hpp"
#include "src/trace/trace_reader.hpp"

using namespace nkisim;

namespace {

std::string tile(const std::string& name, const std::string& dtype, int columns) {
  return R"({"tensor": {"name": ")" + name + R"(", "space": "sbuf", "dtype": ")" + dtype +
         R"(", "shape": [128, )" + std::to_string(columns) + "]}}\n";
}

const std::string kSum =
    R"({"i": "tensor_reduce", "dst": "s", "op": "add", "data": "w", "axis": [1]})"
    "\n";

// The number of instructions left of a load, a widening copy and `lines`.
std::size_t left(const std::string& target, bool legacy, const std::string& lines) {
  TraceFile trace = read_trace_text(
      R"({"nisa": 1, "target": ")" + target + R"(", "addresses": "open"})" + "\n" +
          R"({"tensor": {"name": "x", "dtype": "bfloat16", "shape": [128, 512], "role": "input"}})" +
          "\n" + tile("t", "bfloat16", 512) + tile("w", "float32", 512) + tile("s", "float32", 1) +
          tile("o", "float32", 512) + R"({"i": "dma_copy", "dst": "t", "src": "x"})" + "\n" +
          R"({"i": "tensor_copy", "dst": "w", "src": "t"})" + "\n" + lines,
      "k.jsonl");
  trace.legacy = legacy;
  auto options =
      compiler::kernel_options([](const compiler::Switch& s) -> std::optional<std::string> {
        return s.name == "casts" ? std::optional<std::string>("engine") : std::nullopt;
      });
  const models::Config config = load_config(target);
  (void)compile_trace(trace, options, true, [&]() -> const models::Config& { return config; });
  return trace.program->insts().size();
}

}  // namespace

TEST_CASE("a cast that only a sum reads is folded into it on trn1", "[casts]") {
  CHECK(left("trn1", true, kSum) == 2);  // of load, copy, sum
  CHECK(left("trn1", false, kSum) == 3);
  CHECK(left("trn2", true, kSum) == 3);
}

TEST_CASE("a cast stays where something else reads it or its tile is overwritten", "[casts]") {
  const std::string other = R"({"i": "activation", "dst": "o", "op": "exp", "data": "w"})"
                            "\n";
  CHECK(left("trn1", true, kSum + other) == 4);
  CHECK(left("trn1", true,
             R"({"i": "memset", "dst": "t", "value": 0.0})"
             "\n" +
                 kSum) == 4);
  CHECK(
      left("trn1", true,
           R"({"i": "tensor_reduce", "dst": "s", "op": "add", "data": "w[:, 0:256]", "axis": [1]})"
           "\n") == 3);
}
