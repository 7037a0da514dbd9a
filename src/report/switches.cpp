// Compiles and simulates a program again with each compiler switch changed.

#include "src/report/switches.hpp"

#include <algorithm>
#include <cmath>

#include "isa/base/stable_order.hpp"
#include "src/report/totals.hpp"
#include "src/run/compile_trace.hpp"
#include "src/run/simulation.hpp"

namespace nkisim {
namespace {

using compiler::Switch;

// Lends the program to other versions and gives it back.
class ProgramSwap {
 public:
  ProgramSwap(isa::Program& program, const isa::Program::Version& recorded)
      : program_(program), recorded_(recorded), own_(recorded) {
    program_.exchange(own_);
  }
  ~ProgramSwap() { program_.exchange(own_); }
  ProgramSwap(const ProgramSwap&) = delete;
  ProgramSwap& operator=(const ProgramSwap&) = delete;
  void begin_anew() { program_.restore(recorded_); }

 private:
  isa::Program& program_;
  const isa::Program::Version& recorded_;
  isa::Program::Version own_;  // the caller's while it is swapped
};

}  // namespace

SwitchRuns try_switches(TraceFile& trace, const isa::Program::Version& recorded,
                        const compiler::CompilerOptions& used, const models::Config& config,
                        const std::function<bool()>& go_on) {
  SwitchRuns out;
  bool stopped = false;
  models::RunOptions sim;
  sim.progress = [&](std::uint64_t, models::Fs) {
    stopped = stopped || (go_on && !go_on());
    return !stopped;
  };
  ProgramSwap swapped(*trace.program, recorded);
  const auto end_with = [&](const compiler::CompilerOptions& options) {
    swapped.begin_anew();
    compile_trace(trace, options, true, [&]() -> const models::Config& { return config; });
    Summary summary;
    simulate(*trace.program, config, nullptr, {&summary}, sim);
    return in_seconds(latency(summary)) * 1e6;
  };
  double base = 0;
  try {
    base = end_with(used);
  } catch (const isa::Error&) {
    out.why_not = "its course depends on values";
    return out;
  }
  for (const Switch& s : compiler::switches()) {
    if (s.stage == Switch::Stage::kRecording || s.flag()) continue;
    for (const std::string_view choice : s.choices) {
      if (stopped || choice == "auto" || choice == used.*s.value) continue;
      compiler::CompilerOptions options = used;
      options.*s.value = choice;
      SwitchRun run{.name = std::string(s.name), .choice = std::string(choice)};
      try {
        run.change = end_with(options) / base - 1;
      } catch (const isa::Error& e) {
        run.error = e.message();
      }
      if (!stopped) out.runs.push_back(std::move(run));
    }
  }
  isa::sort_stably(out.runs, [](const SwitchRun& a, const SwitchRun& b) {
    return std::abs(a.change) > std::abs(b.change);
  });
  return out;
}

}  // namespace nkisim
