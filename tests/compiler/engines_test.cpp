// Tests the pass that moves instructions from VectorE to ScalarE where the program names no engine.
#include <algorithm>
#include <catch2/catch.hpp>

#include "src/config/config_json.hpp"
#include "src/run/compile_trace.hpp"
#include "src/trace/trace_reader.hpp"

using namespace nkisim;

namespace {

std::string tile(const std::string& name, const std::string& space = "sbuf") {
  return R"({"tensor": {"name": ")" + name + R"(", "space": ")" + space +
         R"(", "dtype": "float32", "shape": [128, 512]}})" + "\n";
}

// Compiled for trn2 with engines=scalar, without another order: its instructions' names and
// engines.
std::vector<std::pair<std::string, isa::Engine>> compiled(const std::string& lines) {
  TraceFile trace = read_trace_text(
      R"({"nisa": 1, "target": "trn2", "addresses": "open"}
{"tensor": {"name": "x", "dtype": "float32", "shape": [128, 512], "role": "input"}}
)" + tile("a") +
          tile("p", "psum") + R"({"i": "dma_copy", "dst": "a", "src": "x"})" + "\n" + lines,
      "k.jsonl");
  auto options =
      compiler::kernel_options([](const compiler::Switch& s) -> std::optional<std::string> {
        return s.name == "engines" ? std::optional<std::string>("scalar") : std::nullopt;
      });
  options.schedule = "program";
  const models::Config config = load_config("trn2");
  (void)compile_trace(trace, options, true, [&]() -> const models::Config& { return config; });
  std::vector<std::pair<std::string, isa::Engine>> found;
  for (const isa::Inst& inst : trace.program->insts()) {
    found.emplace_back(isa::spec(inst).name, inst.engine);
  }
  return found;
}

}  // namespace

TEST_CASE("ScalarE takes a part of the arithmetic, in whichever memory it is", "[engines]") {
  const std::string from = GENERATE("a", "p");
  std::string tiles, lines;
  if (from == "p") {
    lines +=
        R"({"i": "nc_matmul", "dst": "p", "stationary": "a[:, 0:128]", "moving": "a", "accumulate": false})"
        "\n";
  }
  for (int i = 0; i < 10; ++i) {
    const std::string to = "t" + std::to_string(i);
    tiles += tile(to);
    lines += R"({"i": "tensor_scalar", "dst": ")" + to + R"(", "data": ")" + from +
             R"(", "op0": "multiply", "operand0": )" + std::to_string(i + 2) + "}\n";
  }
  const auto found = compiled(tiles + lines);
  const auto kept =
      std::count(found.begin(), found.end(),
                 std::pair<std::string, isa::Engine>("tensor_scalar", isa::Engine::kVector));
  const auto moved =
      std::count(found.begin(), found.end(),
                 std::pair<std::string, isa::Engine>("activation", isa::Engine::kScalar));
  INFO(from << ": " << moved << " of 10 moved");
  CHECK(moved >= 2);  // both take about as long for each
  CHECK(kept >= 2);
  CHECK(moved + kept == 10);
}

TEST_CASE("ScalarE takes all copies out of PSUM and none of SBUF", "[engines]") {
  const auto found = compiled(
      tile("s") + tile("t") +
      R"({"i": "nc_matmul", "dst": "p", "stationary": "a[:, 0:128]", "moving": "a", "accumulate": false}
{"i": "tensor_copy", "dst": "s", "src": "p"}
{"i": "tensor_copy", "dst": "t", "src": "a"}
)");
  REQUIRE(found.size() == 4);
  CHECK(found[2] == std::pair<std::string, isa::Engine>("activation", isa::Engine::kScalar));
  CHECK(found[3] == std::pair<std::string, isa::Engine>("tensor_copy", isa::Engine::kVector));
}
