#include "src/cli/python_command.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "isa/error.hpp"

namespace nkisim::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kNoInterpreter = 127;  // the shell's code for a missing program

// The interpreter of the environment that pip installed the program into.
fs::path beside(const fs::path& program) { return program.parent_path() / "python3"; }

// The build tree has the package in ../../python and ./python; an installation needs no help.
void prepend_python_path(const fs::path& program) {
  if (fs::exists(beside(program))) return;
  std::string path;
  for (const fs::path& folder :
       {program.parent_path() / "python", fs::path(NKISIM_SOURCE_DIR) / "python"}) {
    if (fs::exists(folder / "nkisim")) path += folder.string() + ":";
  }
  if (path.empty()) return;
  if (const char* old = std::getenv("PYTHONPATH")) path += old;
  setenv("PYTHONPATH", path.c_str(), 1);
}

std::string interpreter(const fs::path& program) {
  const char* chosen = std::getenv("NKISIM_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  if (fs::exists(beside(program))) return beside(program).string();
  return fs::exists(NKISIM_PYTHON_EXECUTABLE) ? NKISIM_PYTHON_EXECUTABLE : "python3";
}

}  // namespace

std::span<const PythonCommand> python_commands() {
  static const std::array<PythonCommand, 7> kCommands = {{
      {"kernel", "run a Python NKI kernel on generated arguments", "nkisim"},
      {"view", "a saved session as AWS's summary, JSON, CSV or Parquet tables", "nkisim_profile"},
      {"report", "a saved session as one HTML file", "nkisim_profile"},
      {"compare", "what changed between two runs, configs or generations", "nkisim_profile"},
      {"sweep", "the latency for every combination of settings", "nkisim_profile"},
      {"validate", "simulate what has been measured on chips, and compare", "nkisim_validation"},
      {"calibrate", "fit numbers of a config to measurements", "nkisim_validation"},
  }};
  return kCommands;
}

namespace {

[[noreturn]] void replace_process(const std::string& module,
                                  const std::vector<std::string>& words) {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  prepend_python_path(program);
  setenv("NKISIM_PROGRAM", program.c_str(), 1);
  std::vector<std::string> all = {interpreter(program), "-m", module};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  throw isa::Error(isa::ErrorCode::kUsage,
                   "cannot start " + all.front() + "; set NKISIM_PYTHON to a Python interpreter");
}

}  // namespace

int call_python(const std::string& module, const std::vector<std::string>& words) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      replace_process(module, words);
    } catch (const isa::Error&) {
      _exit(kNoInterpreter);
    }
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) return kNoInterpreter;
  return WEXITSTATUS(status);
}

int run_python(const PythonCommand& command, const std::vector<std::string>& words) {
  std::vector<std::string> all = {command.name};
  all.insert(all.end(), words.begin(), words.end());
  replace_process(command.module, all);
}

}  // namespace nkisim::cli
