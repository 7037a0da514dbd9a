// Tests the programs in traces/ on every target against their expected values: the kernel's formula
// in float64 NumPy (traces/make.py).
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "isa/world/interpreter.hpp"
#include "src/config/config_json.hpp"
#include "src/run/golden.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_reader.hpp"
#include "tests/support/source_folder.hpp"

namespace {

using namespace nkisim;

const std::string kFolder = source_folder() + "/traces/";
constexpr std::array kTargets = {"trn1", "inf2", "trn2", "trn3"};

nlohmann::ordered_json expectations() {
  std::ifstream in(kFolder + "expect.json");
  return nlohmann::ordered_json::parse(in);
}

TraceFile read_for(const std::string& name, const std::string& target) {
  ReadOptions options;
  options.target = target;
  return read_trace(kFolder + name + ".jsonl", options);
}

void require_golden(const isa::Program& program, isa::Memory& memory, const std::string& name,
                    const nlohmann::ordered_json& entry) {
  const auto golden = read_npz(kFolder + name + ".npz");
  for (const isa::Tensor& t : program.tensors()) {
    if (t.role == isa::TensorRole::kOutput) REQUIRE(golden.count(t.name) == 1);
  }
  const Tolerance tolerance{.rtol = entry.at("rtol"), .atol = entry.at("atol")};
  for (const Comparison& row : compare(program, memory, golden, tolerance)) {
    INFO(row.tensor << "[" << row.worst << "] is " << row.got << ", expected " << row.expected);
    CHECK(row.equal);
  }
}

/// fn(name, entry) for every trace in the repository.
template <typename Fn>
void for_each_trace(Fn&& fn) {
  const auto entries = expectations();
  REQUIRE(entries.size() >= 10);
  for (const auto& [name, entry] : entries.items()) {
    const bool on_demand = entry.at("on_demand");
    if (!on_demand) fn(name, entry);
  }
}

/// Reads every trace for each of its targets, lets execute(program, memory, target) run it, and
/// compares the outputs with the golden file.
template <typename Fn>
void check_all(Fn&& execute) {
  for_each_trace([&](const std::string& name, const nlohmann::ordered_json& entry) {
    for (const std::string target : entry.at("targets")) {
      INFO(name << " on " << target);
      try {
        const TraceFile trace = read_for(name, target);
        isa::Memory memory(*trace.program);
        load_inputs(trace, memory);
        execute(*trace.program, memory, target);
        require_golden(*trace.program, memory, name, entry);
      } catch (const isa::Error& e) {
        FAIL_CHECK(e.what());
      }
    }
  });
}

}  // namespace

TEST_CASE("every example program gives its expected result without timing") {
  check_all([](const isa::Program& program, isa::Memory& memory, const std::string&) {
    isa::interpret(program, memory);
  });
}

TEST_CASE("every example program gives its expected result with timing") {
  check_all([](const isa::Program& program, isa::Memory& memory, const std::string& target) {
    const SimResult result = simulate(program, load_config(target), &memory);
    CHECK(result.end > 0);
  });
}

TEST_CASE("a trace is refused on targets that lack its instructions") {
  for_each_trace([](const std::string& name, const nlohmann::ordered_json& entry) {
    const std::vector<std::string> fits = entry.at("targets");
    for (const std::string target : kTargets) {
      if (std::find(fits.begin(), fits.end(), target) != fits.end()) continue;
      INFO(name << " on " << target);
      CHECK_THROWS_AS(read_for(name, target), isa::Error);
    }
  });
}
