#include "src/cli/compile_options.hpp"

#include <algorithm>
#include <iostream>
#include <optional>

#include "src/config/config.hpp"
#include "src/job/job.hpp"
#include "src/run/run.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;
using compiler::Switch;

std::string joined(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view word : words) out.append(out.empty() ? "" : ", ").append(word);
  return out;
}

std::string help_for(const Switch& s) {
  std::string text(s.what);
  std::erase(text, '`');
  if (s.flag()) return text;
  return joined(s.choices) + "; the first unless the trace is placed already (then " +
         std::string(s.of_trace) + ") or " + s.variable() + " says another. " +
         std::string(s.choices.front()) + ": " + text;
}

std::optional<std::string> chosen(const Args& args, const Switch& s) {
  if (s.stage == Switch::Stage::kRecording || !given(args, s.option().c_str())) return std::nullopt;
  return s.flag() ? "yes" : text(args, s.option());
}

}  // namespace

void add_compiler_options(po::options_description& named) {
  for (const Switch& s : compiler::switches()) {
    if (s.stage == Switch::Stage::kRecording) continue;
    if (s.flag()) {
      named.add_options()(s.option().c_str(), help_for(s).c_str());
    } else {
      named.add_options()(s.option().c_str(), po::value<std::string>(), help_for(s).c_str());
    }
  }
}

void add_config_options(po::options_description& named) {
  named.add_options()("config", po::value<std::string>(),
                      "machine description: a built-in name or a JSON file")(
      "set", po::value<std::vector<std::string>>(),
      "path=value: override one number of the config");
}

models::Config config_for(const Args& args, const isa::Program& program) {
  return nkisim::config_for(program, text(args, "config"), texts(args, "set"));
}

std::map<std::string, std::string> chosen_switches(const Args& args) {
  std::map<std::string, std::string> all;
  for (const Switch& s : compiler::switches()) {
    if (const auto choice = chosen(args, s)) all[std::string(s.name)] = *choice;
  }
  return all;
}

compiler::CompilerOptions compiler_options(const Args& args, bool place) {
  const auto choice = [&args](const Switch& s) { return chosen(args, s); };
  return place ? compiler::kernel_options(choice) : compiler::trace_options(choice);
}

compiler::Compiled compile(const Args& args, TraceFile& trace, bool place) {
  const compiler::CompilerOptions options = compiler_options(args, place);
  std::optional<models::Config> config;
  auto done = compile_trace(trace, options, place, [&]() -> const models::Config& {
    if (!config) config = config_for(args, *trace.program);
    return *config;
  });
  if (done.overflow) {
    std::cerr << "nkisim: " << done.overflow->what()
              << "\nnkisim: running over capacity (the legacy compiler would spill)\n";
  }
  return done;
}

}  // namespace nkisim::cli
