// Runs one program file stage by stage (read, compile, simulate) and prints the time of each.
// bench/run.py reads it.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>

#include "compiler/pipeline.hpp"
#include "isa/world/interpreter.hpp"
#include "src/config/config_json.hpp"
#include "src/run/simulation.hpp"
#include "src/trace/trace_reader.hpp"

namespace {

/// Measures a stage by both clocks: a busy machine slows the wall's, not the processor's.
class Stopwatch {
 public:
  [[nodiscard]] double wall() const {
    return std::chrono::duration<double>(Clock::now() - wall_).count();
  }
  [[nodiscard]] double cpu() const {
    return static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point wall_ = Clock::now();
  std::clock_t cpu_ = std::clock();
};

/// Peak resident memory of this process so far.
double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

void print(const char* stage, const Stopwatch& watch, std::uint64_t instructions,
           double simulated_us = 0) {
  std::printf(R"({"stage": "%s", "wall": %.6f, "cpu": %.6f, "instructions": %llu, )"
              R"("simulated_us": %.3f, "peak_mib": %.1f})"
              "\n",
              stage, watch.wall(), watch.cpu(), static_cast<unsigned long long>(instructions),
              simulated_us, peak_mib());
}

/// The compiler with its defaults, pass by pass and in all.
void run_compiler(const nkisim::TraceFile& trace) {
  const std::uint64_t recorded = trace.program->insts().size();
  const nkisim::models::Config config =
      nkisim::load_config(std::string(trace.program->machine().target));
  const Stopwatch all;
  Stopwatch pass;
  const auto on_step = [&](const nkisim::compiler::Compiled::Step& step) {
    print(("pass " + std::string(step.pass)).c_str(), pass, recorded);
    pass = {};
  };
  nkisim::compiler::compile(
      *trace.program, nkisim::compiler::kernel_options([](const auto&) { return std::nullopt; }),
      {trace.open, trace.legacy}, [&]() -> const nkisim::models::Config& { return config; },
      on_step);
  print("compile", all, recorded);
}

int run(const std::string& what, const std::string& path) {
  const Stopwatch read;
  const nkisim::TraceFile trace = nkisim::read_trace(path);
  print("read", read, trace.program->insts().size());
  if (what == "read") return 0;
  if (what == "compile") {
    run_compiler(trace);
    return 0;
  }
  if (what == "time") {
    const nkisim::models::Config config =
        nkisim::load_config(std::string(trace.program->machine().target));
    const Stopwatch time;
    const auto result = nkisim::simulate(*trace.program, config, nullptr);
    print("time", time, result.instructions, static_cast<double>(result.end) * 1e-9);
    return 0;
  }
  nkisim::isa::Memory memory(*trace.program);
  const Stopwatch load;
  nkisim::load_inputs(trace, memory);
  print("inputs", load, 0);
  const Stopwatch eval;
  const std::uint64_t done = nkisim::isa::interpret(*trace.program, memory);
  print("interpret", eval, done);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  if (what != "read" && what != "compile" && what != "time" && what != "interpret") {
    std::fputs("usage: nkisim_stages read|compile|time|interpret TRACE\n", stderr);
    return 2;
  }
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}
