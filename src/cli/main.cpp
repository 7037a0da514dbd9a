// Runs the nkisim program: finds the subcommand, parses its options and maps failures to exit
// codes.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "isa/base/error.hpp"
#include "isa/base/nearest.hpp"
#include "isa/host/memory_bound.hpp"
#include "src/cli/command.hpp"
#include "src/cli/command_files.hpp"
#include "src/cli/help.hpp"
#include "src/cli/interrupt.hpp"
#include "src/cli/options.hpp"
#include "src/cli/plain_text.hpp"
#include "src/cli/python_command.hpp"
#include "src/job/job.hpp"
#include "src/log/log.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

// Whoever prints JSON or nothing else has one place to look at: what a command warns of is a line
// of the log, on standard error; --quiet leaves it there, as it leaves errors.
void start_log(const Args& args) { log::start(std::cerr, text(args, "log-level")); }

// "; did you mean --target?", else where all options are listed.
std::string near_option(const std::string& command, const std::string& wrong) {
  const std::vector<std::string> names = option_names(command);
  const std::string near = isa::suggest(wrong, {names.begin(), names.end()});
  return near.empty() ? "; see `nkisim " + command + " --help`" : near;
}

// The same of a command's name.
std::string near_command(const std::string& wrong) {
  std::vector<std::string_view> names = {"help"};
  for (const Command& c : commands()) names.push_back(c.name);
  for (const PythonCommand& c : python_commands()) names.push_back(c.name);
  const std::string near = isa::suggest(wrong, names);
  return near.empty() ? "; `nkisim --help` lists all" : near;
}

int run(const Command& c, const std::vector<std::string>& given_words) {
  const std::vector<std::string> words = without_aliases(given_words, c.name);
  po::options_description named("options"), hidden, all;
  po::positional_options_description positional;
  add_common_options(named);
  c.options(named, positional, hidden);
  all.add(named).add(hidden);
  Args args;
  try {
    po::store(po::command_line_parser(words).options(all).positional(positional).run(), args);
    po::notify(args);
  } catch (const po::unknown_option& e) {
    usage(isa::Rule::command_line, e.what() + near_option(c.name, e.get_option_name()));
  } catch (const po::error& e) {
    usage(isa::Rule::command_line, std::string(e.what()) + "; see `nkisim " + c.name + " --help`");
  }
  if (printed_help(c, args)) return kOk;
  require_files_apart(c, args);
  start_log(args);
  return c.run(args);
}

// True if the second file of `nkisim compare` is a device profile: `diff-profile` compares with it.
bool names_profile(const std::vector<std::string>& words) {
  if (words.size() < 2 || words[0].starts_with('-')) return false;
  return words[1].ends_with(".json") || words[1].ends_with(".json.gz");
}

int dispatch(int argc, char* argv[]) {
  const std::string name = argc > 1 ? argv[1] : "--help";
  if (name == "--help" || name == "-h" || name == "help") {
    print_overview(std::cout);
    return kOk;
  }
  if (name == "--version") {
    std::cout << "nkisim " << NKISIM_VERSION << '\n';
    return kOk;
  }
  const std::vector<std::string> words(argv + 2, argv + argc);
  for (const Command& c : commands()) {
    if (c.name == name) return run(c, words);
  }
  if (name == "compare" && names_profile(words)) return run(diff_profile_command(), words);
  for (const PythonCommand& c : python_commands()) {
    if (c.name == name) return run_python(c, words);
  }
  usage(isa::Rule::command_line, "unknown command '" + name + "'" + near_command(name));
}

// A failure is for people on standard error, and with --json for programs on standard output.
int report(const nlohmann::ordered_json& error, const std::string& text, int code, bool json) {
  std::cout.flush();
  if (json) {
    std::cout << nlohmann::ordered_json{{"ok", false}, {"exit_code", code}, {"error", error}}.dump(
                     1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
              << '\n';
  }
  std::cerr << "nkisim: " << text << '\n';
  return code;
}

int report(const isa::Error& error, int code, bool json) {
  return report(error_json(error), text_with_rule(error), code, json);
}

int report_interruption(int code, bool json) {
  const std::string message = "interrupted before anything was simulated";
  return report({{"code", "interrupted"}, {"message", message}}, message, code, json);
}

}  // namespace

void add_common_options(po::options_description& named) {
  named.add_options()("help,h", "")("help-all", "")("help-compiler", "")("json", "")(
      "log-level", po::value<std::string>(), "");
}

bool wants_json(const Args& args) { return args.count("json") != 0; }

void print_json(nlohmann::ordered_json what) {
  nlohmann::ordered_json out = {{"ok", true}};
  out.update(what);
  std::cout << out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
}

void usage(isa::Rule rule, const std::string& message) { throw isa::Error(rule, message); }

std::string text(const Args& args, const std::string& option) {
  return args.count(option) != 0 ? args[option].as<std::string>() : std::string();
}

std::string machine_name(const Args& args) {
  if (given(args, "config")) return text(args, "config");
  return given(args, "target") ? text(args, "target") : "trn2";
}

std::vector<std::string> texts(const Args& args, const std::string& option) {
  using Texts = std::vector<std::string>;
  return args.count(option) != 0 ? args[option].as<Texts>() : Texts();
}

std::string required(const Args& args, const std::string& option) {
  if (args.count(option) == 0) usage(isa::Rule::command_line, "missing argument: " + option);
  return args[option].as<std::string>();
}

}  // namespace nkisim::cli

#ifdef NKISIM_OF_WHEEL  // part of the Python module, whose launcher calls it
                        // (packaging/launcher.cpp)
extern "C" [[gnu::visibility("default")]] int nkisim_main(int argc, char* argv[]) {
#else
int main(int argc, char* argv[]) {
#endif
  nkisim::cli::end_on_interrupt();
  setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 0);
  const bool json = std::any_of(argv + 1, argv + std::max(argc, 1),
                                [](const char* word) { return std::strcmp(word, "--json") == 0; });
  const nkisim::cli::PlainText out(std::cout), err(std::cerr);
  const nkisim::isa::host::MemoryBound bound;
  try {
    return nkisim::cli::dispatch(argc, argv);
  } catch (const nkisim::Interrupted& e) {
    return nkisim::cli::report_interruption(nkisim::kSignalled + e.signal, json);
  } catch (...) {
    const nkisim::isa::Error error = nkisim::error_in_flight(bound);
    return nkisim::cli::report(error, nkisim::exit_code_of(error), json);
  }
}
