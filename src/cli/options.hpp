// Declares the table of all commands' options (options.def), and look-ups by command.
#pragma once

#include <boost/program_options.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nkisim::cli {

/// One line of the table.
struct OptionInfo {
  enum class Kind { kFlag, kText, kTexts, kCount, kSize, kSeed, kReal };
  Kind kind;
  std::string_view name;
  std::string_view letter;    // of -o; empty if there is none
  std::string_view value;     // what stands for the value in the help
  std::string_view standard;  // the default as one types it; empty: none, or by the input
  std::string_view commands;  // "run* check": `run` shows it in --help
  std::string_view text;

  /// True if a command has it, and true if the command's --help shows it.
  [[nodiscard]] bool of(std::string_view command) const;
  [[nodiscard]] bool common_in(std::string_view command) const;
  /// True if its value is a file or folder that is written.
  [[nodiscard]] bool writes() const;
};

/// The values that completion offers for an option.
struct OptionValues {
  std::string_view name;
  std::string_view values;  // with a space between
};

/// An older spelling of an option.
struct OptionAlias {
  std::string_view old;
  std::string_view now;
  std::string_view commands;

  [[nodiscard]] bool of(std::string_view command) const;
};

[[nodiscard]] std::span<const OptionInfo> all_options();
[[nodiscard]] std::span<const OptionAlias> all_aliases();
[[nodiscard]] std::span<const OptionValues> all_values();
/// Adds a command's options from the table.
void add_options(boost::program_options::options_description& named, std::string_view command);
/// Words of the command line with older spellings replaced.
[[nodiscard]] std::vector<std::string> without_aliases(std::vector<std::string> words,
                                                       std::string_view command);
/// True if a command has the compiler's switches.
[[nodiscard]] bool has_switches(std::string_view command);
/// All names that a command takes: --target, ..., for completion.
[[nodiscard]] std::vector<std::string> option_names(std::string_view command);
/// The table, with the compiler's switches, as the Python module option_table.
[[nodiscard]] std::string options_as_python();

}  // namespace nkisim::cli
