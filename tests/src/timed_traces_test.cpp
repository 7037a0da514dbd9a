// Tests timed simulations of the programs in traces/: they compute what an untimed run computes,
// and it is known of each instruction what its start waited for.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "isa/world/interpreter.hpp"
#include "src/config/config_json.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_reader.hpp"
#include "tests/support/source_folder.hpp"

using namespace nkisim;

namespace {

// A part starts exactly when the last of the moments that bound it has come.
struct StartsAreExplained : models::Observer {
  std::int64_t parts = 0, unexplained = 0;
  void on_event(const models::PartEvent& e) override {
    const models::Wait& w = e.wait;
    const models::Fs bound =
        std::max({w.ready, w.producer_end, w.visible, w.awake, w.pipe_free, w.port_free});
    ++parts;
    if (bound != e.start) ++unexplained;
    if (e.end < e.start || e.throttled < 0) ++unexplained;
  }
};

std::vector<std::string> traces() {
  std::vector<std::string> list;
  for (const auto& f : std::filesystem::directory_iterator(source_folder() + "/traces")) {
    if (f.path().extension() == ".jsonl") list.push_back(f.path().string());
  }
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace

TEST_CASE("timed runs of the repository's traces equal the interpreter") {
  for (const std::string& path : traces()) {
    INFO(path);
    const TraceFile trace = read_trace(path);
    const isa::Program& program = *trace.program;
    isa::Memory timed(program), plain(program);
    load_inputs(trace, timed);
    load_inputs(trace, plain);
    isa::interpret(program, plain);
    StartsAreExplained observer;
    const SimResult r =
        simulate(program, load_config(std::string(program.machine().target)), &timed, {&observer});
    CHECK(observer.parts > 0);
    CHECK(observer.unexplained == 0);
    CHECK(r.end > 0);
    for (std::uint32_t t = 0; t < program.tensors().size(); ++t) {
      if (program.tensor(t).space != isa::Space::kHbm) continue;
      INFO(program.tensor(t).name);
      CHECK(timed.read(t) == plain.read(t));
    }
  }
}
