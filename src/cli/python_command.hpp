// Runs the subcommands that are written in Python, in the nkisim package (such as `nkisim kernel`).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace nkisim::cli {

struct PythonCommand {
  std::string name;
  std::string summary;
  std::string module;  // python -m MODULE NAME words...
};

[[nodiscard]] std::span<const PythonCommand> python_commands();
/// Runs `python -m MODULE words...` and returns its exit code.
int call_python(const std::string& module, const std::vector<std::string>& words);
/// As call_python, of one that prints its own result or error; an Error if there is no interpreter.
int call_module(const std::string& module, const std::vector<std::string>& words);
/// Replaces this process by `python -m MODULE NAME words...`, with the package found next to the
/// program (build tree or installation). Returns only by throwing Error.
int run_python(const PythonCommand& command, const std::vector<std::string>& words);

}  // namespace nkisim::cli
