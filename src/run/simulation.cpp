#include "src/run/simulation.hpp"

#include "src/log/log.hpp"

namespace nkisim {

void check_config(const isa::Program& program, const models::Config& config) {
  if (isa::find_machine(config.target)->generation == program.machine().generation) return;
  isa::fail(isa::Rule::config_target, "the config " + config.name + " describes " + config.target +
                                          ", the program is for " +
                                          std::string(program.machine().target));
}

models::RunOptions run_options(const SimOptions& options) {
  return {.conditions = options.conditions, .progress = options.progress};
}

SimResult simulate(const isa::Program& program, const models::Config& config, isa::Memory* memory,
                   const SimOptions& options) {
  check_config(program, config);
  const bool timing_only = options.timing_only || program.timing_only();
  if (!timing_only && memory == nullptr) {
    throw isa::Error(isa::Rule::internal_error, "simulate: a run with data needs a memory");
  }
  const log::Watched watched(options.observers);
  const models::RunResult r = models::run(program, config, timing_only ? nullptr : memory,
                                          watched.list(), run_options(options));
  return {r.end, r.instructions, r.stopped};
}

}  // namespace nkisim
