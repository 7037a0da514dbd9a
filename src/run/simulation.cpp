#include "src/run/simulation.hpp"

namespace nkisim {

SimResult simulate(const isa::Program& program, const models::Config& config, isa::Memory* memory,
                   const SimOptions& options) {
  if (isa::find_machine(config.target)->generation != program.machine().generation) {
    isa::fail("the config " + config.name + " describes " + config.target +
              ", the program is for " + std::string(program.machine().target));
  }
  const bool timing_only = options.timing_only || program.timing_only();
  if (!timing_only && memory == nullptr) {
    throw isa::Error(isa::ErrorCode::kInternal, "simulate: a run with data needs a memory");
  }
  const models::ObserverList observers(options.observers);
  models::RunOptions run_options;
  run_options.unwritten = options.unwritten;
  run_options.undefined_output = options.undefined_output;
  run_options.print = options.print;
  run_options.stochastic_rounding = options.stochastic_rounding;
  run_options.progress = options.progress;
  const models::RunResult r =
      models::run(program, config, timing_only ? nullptr : memory, observers, run_options);
  return {r.end, r.instructions, r.stopped};
}

}  // namespace nkisim
