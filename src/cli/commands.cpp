// Lists all subcommands of the nkisim program.
#include "src/cli/command.hpp"

namespace nkisim::cli {

std::span<const Command> commands() {
  static const std::vector<Command> kCommands = {
      run_command(),          worker_command(),  compile_command(),    check_command(),
      disasm_command(),       isa_command(),     config_command(),     import_profile_command(),
      diff_profile_command(), convert_command(), explain_command(),    collective_command(),
      chip_command(),         same_command(),    completion_command(),
  };
  return kCommands;
}

}  // namespace nkisim::cli
