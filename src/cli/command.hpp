// Declares the subcommands of the nkisim program. Each has one file; commands() lists them.
#pragma once

#include <boost/program_options.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "isa/base/error.hpp"
#include "src/job/job.hpp"

namespace nkisim::cli {

using Args = boost::program_options::variables_map;

/// A subcommand: what it is called, what it takes, and what it does. Every one also takes --help
/// and --json, which makes its result, and any error, JSON on standard output.
struct Command {
  std::string name;
  std::string summary;   // one line for `nkisim --help`
  std::string synopsis;  // "nkisim run TRACE [options]"
  std::string examples;  // at most three, for --help
  std::string notes;     // what else --help-all says
  void (*options)(boost::program_options::options_description& named,
                  boost::program_options::positional_options_description& positional,
                  boost::program_options::options_description& hidden);
  /// Returns an exit code; throws isa::Error.
  int (*run)(const Args& args);
};

[[nodiscard]] std::span<const Command> commands();
/// The options every command has.
void add_common_options(boost::program_options::options_description& named);
/// True if an option was given.
[[nodiscard]] inline bool given(const Args& args, const char* option) {
  return args.count(option) != 0;
}
/// True if --json was given.
[[nodiscard]] bool wants_json(const Args& args);
/// Prints {"ok": true, ...what}.
void print_json(nlohmann::ordered_json what);

const Command& run_command();
const Command& worker_command();
const Command& compile_command();
const Command& check_command();
const Command& disasm_command();
const Command& isa_command();
const Command& config_command();
const Command& collective_command();
const Command& chip_command();
const Command& convert_command();
const Command& same_command();
const Command& completion_command();
const Command& import_profile_command();
const Command& diff_profile_command();
const Command& explain_command();

/// Throws a usage Error (exit 2).
[[noreturn]] void usage(isa::Rule rule, const std::string& message);
/// The value of an option, empty if it was not given.
[[nodiscard]] std::string text(const Args& args, const std::string& option);
[[nodiscard]] std::vector<std::string> texts(const Args& args, const std::string& option);
/// The machine that is asked for: --config, else --target, which may be a file as well, else trn2.
[[nodiscard]] std::string machine_name(const Args& args);
/// The value of a required option or positional argument; a usage Error if it is missing.
[[nodiscard]] std::string required(const Args& args, const std::string& option);

}  // namespace nkisim::cli
