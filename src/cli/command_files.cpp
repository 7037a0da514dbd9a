// Checks that no file of a command line is both read and written.

#include "src/cli/command_files.hpp"

#include <algorithm>

#include "src/cli/options.hpp"
#include "src/files/files.hpp"
#include "src/log/log.hpp"

namespace nkisim::cli {
namespace {
namespace of_command_files {

// The texts of an option or argument that was given.
std::vector<std::string> given_texts(const boost::any& value) {
  if (const auto* one = boost::any_cast<std::string>(&value)) return {*one};
  if (const auto* several = boost::any_cast<std::vector<std::string>>(&value)) return *several;
  return {};
}

// The log's file, where the log goes into one.
std::vector<NamedFile> log_file(const std::string& level) {
  log::Settings settings = log::environment_settings();
  if (!level.empty()) settings = log::parse_settings(level, "--log-level", settings);
  if (settings.file.empty()) return {};
  return {{"--log-level", settings.file}};
}

}  // namespace of_command_files
}  // namespace

void require_files_apart(const Command& command, const Args& args) {
  std::vector<NamedFile> read, written = of_command_files::log_file(text(args, "log-level"));
  for (const auto& [name, value] : args) {
    const std::string option = name;
    const auto row = std::ranges::find_if(
        all_options(), [&](const OptionInfo& o) { return o.name == option && o.of(command.name); });
    const bool named = row != all_options().end();
    for (const std::string& word : of_command_files::given_texts(value.value())) {
      if (named && row->writes()) {
        written.push_back({"--" + option, word});
        continue;
      }
      for (const std::string& file : files_in(word)) {
        read.push_back({named ? "--" + option : "the command", file});
      }
    }
  }
  require_apart(written, read);
}

void require_log_apart(const std::vector<std::string>& words) {
  std::vector<NamedFile> read;
  for (const std::string& word : words) {
    for (const std::string& file : files_in(word)) read.push_back({"the command", file});
  }
  require_apart(of_command_files::log_file({}), read);
}

}  // namespace nkisim::cli
