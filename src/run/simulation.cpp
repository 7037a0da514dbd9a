// Checks that a program fits the machine description, and simulates it.

#include "src/run/simulation.hpp"

#include "src/log/log.hpp"

namespace nkisim {

namespace {

void check_semaphores(const isa::Program& program, const models::Config& config) {
  if (!program.explicit_semaphores() || config.semaphores > 65535) return;
  const auto check = [&config](const isa::Inst& inst, std::uint16_t semaphore) {
    if (semaphore < config.semaphores) return;
    throw isa::Error::about(isa::Rule::config_target, "semaphore", std::to_string(semaphore),
                            "less than semaphores = " + std::to_string(config.semaphores) +
                                " of the config " + config.name)
        .at(isa::spec(inst).name, inst.loc);
  };
  for (const isa::Inst& inst : program.insts()) {
    if (inst.sync == nullptr) continue;
    for (const auto& wait : inst.sync->waits) check(inst, wait.semaphore);
    for (const auto& post : inst.sync->posts) check(inst, post.semaphore);
  }
}

}  // namespace

void check_config(const isa::Program& program, const models::Config& config) {
  const isa::Machine& of_program = program.machine();
  if (config.machine.generation != of_program.generation) {
    isa::fail(isa::Rule::config_target, "the config " + config.name + " describes " +
                                            config.target + ", the program is for " +
                                            std::string(of_program.target));
  }
  const std::vector<isa::MachineSize> has = sizes(config.machine), needs = sizes(of_program);
  for (std::size_t i = 0; i < has.size() && config.machine.target == of_program.target; ++i) {
    if (has[i].value == needs[i].value) continue;
    const std::string key(has[i].key);
    isa::fail(isa::Rule::config_target,
              "the config " + config.name + " has " + key + " = " + std::to_string(has[i].value) +
                  ", the program is for a machine with " + std::to_string(needs[i].value));
  }
  check_semaphores(program, config);
}

SimResult simulate(const isa::Program& program, const models::Config& config, isa::Memory* memory,
                   const std::vector<models::Observer*>& observers,
                   const models::RunOptions& options) {
  check_config(program, config);
  const log::Watched watched(observers);
  const models::RunResult r = models::run(program, config, program.timing_only() ? nullptr : memory,
                                          watched.list(), options);
  return {r.end, r.instructions, r.stopped};
}

}  // namespace nkisim
