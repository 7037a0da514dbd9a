// Finds the Python interpreter and nkisim's package, and runs a subcommand written in Python there.

#include "src/cli/python_command.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "isa/base/error.hpp"
#include "isa/host/host.hpp"
#include "src/cli/command_files.hpp"
#include "src/log/log.hpp"

namespace nkisim::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kNoInterpreter = 127;  // the shell's code for a missing program

// Runs a module as `python -m` does, but never one of the working folder: that folder holds what is
// looked at, and its files are no programs. Kernels are, and may import their neighbours. argv[0]
// is the module, as its usage lines want it. An interrupt waits for the end of an import, which
// would make another exception of it.
constexpr const char* kStart = R"(
import sys
sys.path[:] = [p for p in sys.path if p]
import os, signal, threading
sys.argv[:] = sys.argv[1:]
def interrupt(number, frame):
    while frame is not None and not frame.f_code.co_filename.startswith('<frozen importlib'):
        frame = frame.f_back
    if frame is None:
        raise KeyboardInterrupt
    again = threading.Timer(0.05, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()
try:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    import runpy
    if sys.argv[0] == 'nkisim':
        sys.path.insert(0, '')
    runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)
except KeyboardInterrupt:
    print('nkisim: interrupted', file=sys.stderr)
    sys.exit(130)
)";

// Holds interrupts back until kStart lets them in: one while Python starts would be a traceback.
void hold_interrupts(bool held) {
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  sigprocmask(held ? SIG_BLOCK : SIG_UNBLOCK, &interrupts, nullptr);
}

// The interpreter of the environment that pip installed the program into.
fs::path python_next_to(const fs::path& program) { return program.parent_path() / "python3"; }

// Outside of an environment the interpreter is elsewhere; pip wrote it into the script next to us.
std::string of_script(const fs::path& program) {
  std::ifstream script(program.parent_path() / "nkisim-kernel");
  std::string line;
  if (!std::getline(script, line) || !line.starts_with("#!/")) return {};
  line.erase(0, 2);
  return line.find("python") != std::string::npos && fs::exists(line) ? line : std::string();
}

// The build tree has the package in ../../python and ./python; an installation needs no help.
void prepend_python_path(const fs::path& program) {
  if (program.is_absolute() && fs::exists(python_next_to(program))) return;
  std::string path;  // without an empty entry, which would be the working folder
  for (const fs::path& folder :
       {program.parent_path() / "python", fs::path(NKISIM_SOURCE_DIR) / "python"}) {
    if (folder.is_absolute() && fs::exists(folder / "nkisim")) {
      path += (path.empty() ? "" : ":") + folder.string();
    }
  }
  if (path.empty()) return;
  if (const char* old = std::getenv("PYTHONPATH"); old != nullptr && *old != '\0') {
    path += std::string(":") + old;
  }
  setenv("PYTHONPATH", path.c_str(), 1);
}

std::string interpreter(const fs::path& program) {
  const char* chosen = std::getenv("NKISIM_PYTHON");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  if (program.is_absolute()) {  // else its neighbours would be files of the working folder
    if (fs::exists(python_next_to(program))) return python_next_to(program).string();
    if (std::string found = of_script(program); !found.empty()) return found;
  }
  return fs::exists(NKISIM_PYTHON_EXECUTABLE) ? NKISIM_PYTHON_EXECUTABLE : "python3";
}

}  // namespace

std::span<const PythonCommand> python_commands() {
  static const auto kCommands = std::to_array<PythonCommand>({
      {"demo", "write an example kernel here, run it, and say what to try next", "nkisim"},
      {"new", "write a kernel with its reference, test and CI file to start from", "nkisim"},
      {"doctor", "what is installed, which nki an import finds, what is missing", "nkisim"},
      {"kernel", "run a Python NKI kernel on generated arguments", "nkisim"},
      {"view", "a saved session as AWS's summary, JSON, CSV or Parquet tables", "nkisim_profile"},
      {"report", "a saved session as one HTML file", "nkisim_profile"},
      {"compare", "what changed between two runs, configs or generations", "nkisim_profile"},
      {"advise", "what to change in a kernel, each change simulated", "nkisim_advise"},
      {"debug", "step through a run: tiles, engines, watches; also as a DAP server",
       "nkisim_debug"},
      {"sweep", "the latency for every combination of settings", "nkisim_profile"},
      {"model", "a whole model's time per token, from its config.json", "nkisim_model"},
      {"evaluate", "judge candidate kernels: values, time, rules", "nkisim_evaluate"},
      {"tune", "search a kernel's parameters for the fastest", "nkisim_evaluate"},
      {"mcp", "evaluate, explain and compare as tools of an agent (MCP)", "nkisim_adapters"},
      {"lsp", "a language server: errors and times while a kernel is typed", "nkisim_editor"},
      {"validate", "simulate what has been measured on chips, and compare", "nkisim_validation"},
      {"calibrate", "fit numbers of a config to measurements", "nkisim_validation"},
      {"probe", "kernels that measure a chip, and the config that follows", "nkisim_validation"},
  });
  return kCommands;
}

namespace {

[[noreturn]] void replace_process(const std::string& module,
                                  const std::vector<std::string>& words) {
  const fs::path program = isa::host::own_program();
  prepend_python_path(program);
  if (!program.empty()) setenv("NKISIM_PROGRAM", program.c_str(), 1);
  std::vector<std::string> all = {interpreter(program), "-c", kStart, module};
  hold_interrupts(true);
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  hold_interrupts(false);
  throw isa::Error(isa::Rule::python_missing,
                   "cannot start " + all.front() + "; set NKISIM_PYTHON to a Python interpreter");
}

// Every process that the command starts inherits it.
void log_from_here(const std::string& level) {
  const log::Settings settings =
      log::parse_settings(level, "--log-level", log::environment_settings());
  setenv("NKISIM_LOG", log::format_settings(settings).c_str(), 1);
}

}  // namespace

int call_python(const std::string& module, const std::vector<std::string>& words) {
  const pid_t child = fork();
  if (child == 0) {
    // A signal to the group reaches both: what is being written is finished, and this program ends
    // with its own code. SIGTERM is left alone where this program does not wait for the end,
    // either.
    std::signal(SIGINT, SIG_IGN);
    const bool waits = std::signal(SIGTERM, SIG_IGN) != SIG_DFL;
    if (!waits) std::signal(SIGTERM, SIG_DFL);
    isa::host::end_with_parent(waits ? SIGKILL : SIGTERM);
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

int call_module(const std::string& module, const std::vector<std::string>& words) {
  const int code = call_python(module, words);
  if (code != kNoInterpreter) return code;
  throw isa::Error(isa::Rule::python_missing,
                   "cannot start Python; set NKISIM_PYTHON to an interpreter");
}

int run_python(const PythonCommand& command, const std::vector<std::string>& words) {
  std::vector<std::string> all = {command.name};
  for (std::size_t i = 0; i < words.size(); ++i) {
    constexpr std::string_view kOption = "--log-level";
    if (words[i].starts_with(std::string(kOption) + "=")) {
      log_from_here(words[i].substr(kOption.size() + 1));
    } else if (words[i] == kOption && i + 1 < words.size()) {
      log_from_here(words[++i]);
    } else {
      all.push_back(words[i]);
    }
  }
  require_log_apart(words);
  replace_process(command.module, all);
}

}  // namespace nkisim::cli
