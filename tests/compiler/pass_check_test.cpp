// Tests the check that compiler passes keep all values: it finds wrong ones, accepts right ones.
#include "compiler/analysis/pass_check.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "compiler/pipeline.hpp"
#include "isa/base/act.hpp"
#include "isa/base/alu.hpp"
#include "src/trace/trace_reader.hpp"

using namespace nkisim;
using Catch::Matchers::Contains;
using compiler::Pass;
using compiler::PassResult;
using compiler::Unit;

namespace {

constexpr const char* kHeader = R"({"nisa": 1, "target": "trn2", "addresses": "open"}
{"tensor": {"name": "x", "dtype": "float32", "shape": [64, 32], "role": "input"}}
{"tensor": {"name": "z", "dtype": "float32", "shape": [64, 32], "role": "input"}}
{"tensor": {"name": "y", "dtype": "float32", "shape": [64, 32], "role": "output"}}
{"tensor": {"name": "rows", "dtype": "float32", "shape": [64, 1], "role": "output"}}
{"tensor": {"name": "sums", "dtype": "float32", "shape": [32, 32], "role": "output"}}
{"tensor": {"name": "t", "space": "sbuf", "dtype": "float32", "shape": [64, 32]}}
{"tensor": {"name": "v", "space": "sbuf", "dtype": "float32", "shape": [64, 32]}}
{"tensor": {"name": "u", "space": "sbuf", "dtype": "float32", "shape": [64, 32]}}
{"tensor": {"name": "e", "space": "sbuf", "dtype": "float32", "shape": [64, 32]}}
{"tensor": {"name": "d", "space": "sbuf", "dtype": "float32", "shape": [64, 32]}}
{"tensor": {"name": "m", "space": "sbuf", "dtype": "uint8", "shape": [64, 32]}}
{"tensor": {"name": "s", "space": "sbuf", "dtype": "float32", "shape": [64, 1]}}
{"tensor": {"name": "p", "space": "psum", "dtype": "float32", "shape": [32, 32]}}
{"tensor": {"name": "r", "space": "sbuf", "dtype": "float32", "shape": [32, 32]}}
)";

constexpr const char* kLines = R"({"i": "dma_copy", "dst": "t", "src": "x"}
{"i": "dma_copy", "dst": "v", "src": "z"}
{"i": "tensor_scalar", "dst": "u", "data": "t", "op0": "multiply", "operand0": 2.0, "op1": "add", "operand1": 1.0}
{"i": "activation", "dst": "e", "data": "u", "op": "exp"}
{"i": "tensor_tensor", "dst": "d", "data1": "e", "data2": "v", "op": "subtract"}
{"i": "tensor_tensor", "dst": "m", "data1": "t", "data2": "v", "op": "greater"}
{"i": "tensor_copy_predicated", "dst": "d", "src": "u", "predicate": "m"}
{"i": "tensor_reduce", "dst": "s", "data": "d", "op": "add", "axis": [1]}
{"i": "nc_matmul", "dst": "p", "stationary": "t", "moving": "v"}
{"i": "nc_matmul", "dst": "p", "stationary": "e", "moving": "d", "accumulate": true}
{"i": "tensor_copy", "dst": "r", "src": "p"}
{"i": "dma_copy", "dst": "y", "src": "d"}
{"i": "dma_copy", "dst": "rows", "src": "s"}
{"i": "dma_copy", "dst": "sums", "src": "r"}
)";

enum : std::uint32_t {  // the lines
  kLoadX,
  kLoadZ,
  kScale,
  kExp,
  kSubtract,
  kMask,
  kSelect,
  kReduce,
  kFirst,
  kSecond,
  kLeave,
  kStoreY,
  kStoreRows,
  kStoreSums
};

TraceFile program() { return read_trace_text(std::string(kHeader).append(kLines), "k.jsonl"); }

// ---- Wrong passes ------------------------------------------------------------------------------

PassResult drop(Unit& u, std::uint32_t line) {
  const std::array<std::uint32_t, 1> numbers{line};
  u.program.remove(numbers);
  return {1};
}

PassResult swap_lines(Unit& u, std::uint32_t a, std::uint32_t b) {
  std::vector<std::uint32_t> order(u.program.insts().size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::swap(order[a], order[b]);
  u.program.reorder(order);
  return {1};
}

// Changes one argument of a line.
template <typename Change>
PassResult edit(Unit& u, std::uint32_t line, const char* name, Change&& change) {
  const isa::Inst& inst = u.program.insts()[line];
  std::vector<isa::Arg> args(inst.args.begin(), inst.args.end());
  change(args.at(static_cast<std::size_t>(isa::param_index(isa::spec(inst), name))));
  u.program.set_args(line, args);
  return {1};
}

PassResult choose(Unit& u, std::uint32_t line, const char* name, const char* alu) {
  const auto op = *isa::parse_alu(alu);
  return edit(u, line, name, [&](isa::Arg& a) { a.integer = static_cast<std::int64_t>(op); });
}

PassResult real(Unit& u, std::uint32_t line, const char* name, double value) {
  return edit(u, line, name, [&](isa::Arg& a) { a.real = value; });
}

PassResult flag(Unit& u, std::uint32_t line, const char* name, bool value) {
  return edit(u, line, name, [&](isa::Arg& a) {
    a.kind = isa::Arg::Kind::kBool;
    a.integer = value ? 1 : 0;
  });
}

template <typename Change>
PassResult operand(Unit& u, std::uint32_t line, const char* name, Change&& change) {
  return edit(u, line, name, [&](isa::Arg& a) {
    isa::TensorRef ref = *a.tensor;
    change(ref);
    a.tensor = u.program.add_ref(ref);
  });
}

PassResult other_tile(Unit& u, std::uint32_t line, const char* name, const char* tensor) {
  return operand(u, line, name,
                 [&](isa::TensorRef& ref) { ref.tensor = *u.program.find_tensor(tensor); });
}

// The operand's last column is left out, or all columns are one further.
PassResult columns(Unit& u, std::uint32_t line, const char* name, std::int64_t first) {
  return operand(u, line, name, [&](isa::TensorRef& ref) {
    ref.offset += 4 * first;
    ref.pattern = u.program.intern({{1, 31}});
  });
}

constexpr std::array kWrong = {
    Pass{"drops a load", [](Unit& u) { return drop(u, kLoadZ); }, ""},
    Pass{"drops a step", [](Unit& u) { return drop(u, kExp); }, ""},
    Pass{"drops a selection", [](Unit& u) { return drop(u, kSelect); }, ""},
    Pass{"drops the first product", [](Unit& u) { return drop(u, kFirst); }, ""},
    Pass{"drops the second product", [](Unit& u) { return drop(u, kSecond); }, ""},
    Pass{"drops a store", [](Unit& u) { return drop(u, kStoreRows); }, ""},
    Pass{"reads before it is written", [](Unit& u) { return swap_lines(u, kScale, kExp); }, ""},
    Pass{"reads after it is overwritten", [](Unit& u) { return swap_lines(u, kSelect, kReduce); },
         ""},
    Pass{"stores too early", [](Unit& u) { return swap_lines(u, kSelect, kStoreY); }, ""},
    Pass{"adds the products in the other order",
         [](Unit& u) { return swap_lines(u, kFirst, kSecond); }, ""},
    Pass{"inverts a condition", [](Unit& u) { return choose(u, kMask, "op", "less_equal"); }, ""},
    Pass{"takes equal for greater", [](Unit& u) { return choose(u, kMask, "op", "greater_equal"); },
         ""},
    Pass{"inverts a selection", [](Unit& u) { return flag(u, kSelect, "reverse_pred", true); }, ""},
    Pass{"takes another operator", [](Unit& u) { return choose(u, kScale, "op1", "subtract"); },
         ""},
    Pass{"takes another reduction", [](Unit& u) { return choose(u, kReduce, "op", "maximum"); },
         ""},
    Pass{"rounds a constant", [](Unit& u) { return real(u, kScale, "operand0", 2.0000002); }, ""},
    Pass{"begins a sum twice", [](Unit& u) { return flag(u, kSecond, "accumulate", false); }, ""},
    Pass{"swaps the operands of a difference",
         [](Unit& u) {
           other_tile(u, kSubtract, "data1", "v");
           return other_tile(u, kSubtract, "data2", "e");
         },
         ""},
    Pass{"reads another tile", [](Unit& u) { return other_tile(u, kExp, "data", "t"); }, ""},
    Pass{"fills another tile", [](Unit& u) { return other_tile(u, kExp, "dst", "u"); }, ""},
    Pass{"leaves out the last column",
         [](Unit& u) {
           columns(u, kExp, "dst", 0);
           return columns(u, kExp, "data", 0);
         },
         ""},
    Pass{"is off by one column",
         [](Unit& u) {
           columns(u, kExp, "dst", 0);
           return columns(u, kExp, "data", 1);
         },
         ""},
    Pass{"is off by one row",
         [](Unit& u) {
           const auto row = [](isa::TensorRef& ref) { ref.partitions = 63; };
           operand(u, kExp, "dst", row);
           return operand(u, kExp, "data", row);
         },
         ""},
    Pass{"keeps a tile in bfloat16",
         [](Unit& u) {
           const auto narrow = [](isa::TensorRef& ref) { ref.dtype = isa::Dtype::kBfloat16; };
           operand(u, kScale, "dst", narrow);
           return operand(u, kExp, "data", narrow);
         },
         ""},
};

compiler::CompilerOptions checked() {
  auto options = compiler::kernel_options(
      [](const compiler::Switch&) -> std::optional<std::string> { return std::nullopt; });
  options.check_passes = true;
  return options;
}

const models::Config& no_config() {
  throw isa::Error(isa::Rule::internal_error, "no costs are needed");
}

Pass found(std::string_view name) {
  for (const Pass& pass : compiler::pipeline()) {
    if (pass.name == name) return pass;
  }
  FAIL("no pass " << name);
  return {};
}

}  // namespace

TEST_CASE("the proof covers the program of these tests", "[passes]") {
  const TraceFile trace = program();
  CHECK(compiler::PassCheck(*trace.program).undecided().empty());
}

TEST_CASE("the check names each of twenty wrong compiler passes", "[passes]") {
  CHECK(kWrong.size() >= 20);
  for (const Pass& wrong : kWrong) {
    INFO(wrong.name);
    TraceFile trace = program();
    const std::array passes = {found("edges"), wrong, found("place")};
    CHECK_THROWS_WITH(
        compiler::compile(*trace.program, checked(), {.open = true}, &no_config, {}, passes),
        Contains("pass " + std::string(wrong.name) + " computes element"));
  }
}

TEST_CASE("tiles at addresses of other live tiles are found", "[passes]") {
  const Pass wrong{"place",
                   [](Unit& u) {
                     for (std::uint32_t id = 0; id < u.program.tensors().size(); ++id) {
                       if (u.program.tensor(id).space != isa::Space::kHbm) {
                         u.program.set_address(id, 0);
                       }
                     }
                     return PassResult{1};
                   },
                   ""};
  TraceFile trace = program();
  const std::array passes = {wrong};
  CHECK_THROWS_WITH(
      compiler::compile(*trace.program, checked(), {.open = true}, &no_config, {}, passes),
      Contains("pass place computes element"));
}

TEST_CASE("the pipeline keeps the values of the program", "[passes]") {
  TraceFile trace = program();
  auto options = checked();
  options.schedule = "program";
  CHECK_NOTHROW(compiler::compile(*trace.program, options, {.open = true}, &no_config));
}
