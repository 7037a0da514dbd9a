// Tests that simulating a random race-free program with timing gives the values of an untimed run.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <random>
#include <sstream>

#include "isa/world/interpreter.hpp"
#include "src/config/config_json.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_reader.hpp"

namespace {

using namespace nkisim;

constexpr int kPrograms = 300;
constexpr int kTiles = 6, kColumns = 64;

unsigned seed() {
  const char* given = std::getenv("NKISIM_FUZZ_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 1;
}

// Overlapping tiles on purpose: t0..t5 share SBUF bytes pairwise, so every kind of hazard occurs.
class Writer {
 public:
  explicit Writer(unsigned s) : random_(s) {}

  std::string program() {
    text_ << R"({"nisa": 1, "target": "trn2", "name": "random"})" << '\n';
    text_
        << R"({"tensor": {"name": "x", "space": "hbm", "shape": [128, 512], "dtype": "float32", )"
        << R"("role": "input", "data": {"generator": "uniform", "seed": 3, "low": -2, "high": 2}}})"
        << '\n';
    text_ << R"({"tensor": {"name": "y", "space": "hbm", "shape": [128, 512], "dtype": "float32", )"
          << R"("role": "output"}})" << '\n';
    for (int t = 0; t < kTiles; ++t) {
      text_ << R"({"tensor": {"name": "t)" << t
            << R"(", "space": "sbuf", "shape": [128, 64], "dtype": "float32", "address": )"
            << t * 128 << "}}\n";
      line("dma_copy", tile(t), quoted("x" + columns(t)));
    }
    const int count = 10 + pick(30);
    for (int i = 0; i < count; ++i) step();
    for (int t = 0; t < kTiles; ++t) line("dma_copy", quoted("y" + columns(t)), tile(t));
    return text_.str();
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  static std::string quoted(const std::string& s) { return '"' + s + '"'; }
  static std::string tile(int t) { return "\"t" + std::to_string(t) + "\""; }
  static std::string columns(int t) {
    return "[:, " + std::to_string(t * kColumns) + ":" + std::to_string((t + 1) * kColumns) + "]";
  }
  std::string any() {
    const int start = pick(3) * 16, width = 16;
    const int quadrant = pick(4) * 32;
    return "\"t" + std::to_string(pick(kTiles)) + "[" + std::to_string(quadrant) + ":" +
           std::to_string(quadrant + 32) + ", " + std::to_string(start) + ":" +
           std::to_string(start + width) + "]\"";
  }
  void line(const std::string& op, const std::string& dst, const std::string& src) {
    text_ << R"({"i": ")" << op << R"(", "dst": )" << dst << R"(, "src": )" << src << "}\n";
  }
  void step() {
    switch (pick(5)) {
      case 0:
        text_ << R"({"i": "tensor_tensor", "engine": ")" << (pick(2) == 0 ? "vector" : "gpsimd")
              << R"(", "dst": )" << any() << R"(, "data1": )" << any() << R"(, "data2": )" << any()
              << R"(, "op": "maximum"})" << '\n';
        break;
      case 1:
        text_ << R"({"i": "activation", "dst": )" << any() << R"(, "data": )" << any()
              << R"(, "op": "tanh"})" << '\n';
        break;
      case 2:
        text_ << R"({"i": "tensor_scalar", "dst": )" << any() << R"(, "data": )" << any()
              << R"(, "op0": "add", "operand0": 0.25})" << '\n';
        break;
      case 3:
        text_ << R"({"i": "tensor_copy", "engine": ")" << (pick(2) == 0 ? "scalar" : "gpsimd")
              << R"(", "dst": )" << any() << R"(, "src": )" << any() << "}\n";
        break;
      default:
        line("dma_copy", any(), any());
    }
  }
  std::mt19937 random_;
  std::ostringstream text_;
};

std::vector<std::byte> outputs(const TraceFile& trace, isa::Memory& memory) {
  return memory.read(*trace.program->find_tensor("y"));
}

}  // namespace

namespace {

// The number of programs that end with other bytes than the interpreter's.
int count_differences(const models::Config& config, unsigned first, unsigned count) {
  int differences = 0;
  for (unsigned s = first; s < first + count; ++s) {
    const std::string text = Writer(s).program();
    const TraceFile trace = read_trace_text(text, "random.jsonl");
    isa::Memory expected(*trace.program), timed(*trace.program);
    load_inputs(trace, expected);
    load_inputs(trace, timed);
    isa::interpret(*trace.program, expected,
                   {.conditions = {.unwritten = isa::Unwritten::kAllow}, .progress = {}});
    simulate(*trace.program, config, &timed, {},
             {.conditions = {.unwritten = isa::Unwritten::kAllow}});
    if (outputs(trace, expected) == outputs(trace, timed)) continue;
    ++differences;
    UNSCOPED_INFO("seed " << s << " differs:\n" << text);
  }
  return differences;
}

}  // namespace

TEST_CASE("timed runs of random programs equal the interpreter") {
  INFO("NKISIM_FUZZ_SEED=" << seed());
  REQUIRE(count_differences(load_config("trn2"), seed(), kPrograms) == 0);
}

TEST_CASE("without derived dependences random programs race") {
  const auto config = load_config("trn2", {"compiler.infer_dependences=false"});
  REQUIRE(count_differences(config, seed(), 20) > 0);
}
