// Reads the compiler's switches from the command lines of `nkisim compile` and `nkisim run`.

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

std::optional<std::string> chosen(const Args& args, const Switch& s) {
  if (s.stage == Switch::Stage::kRecording || !given(args, s.option().c_str())) return std::nullopt;
  return s.flag() ? "yes" : text(args, s.option());
}

}  // namespace

void add_compiler_options(po::options_description& named) {
  for (const Switch& s : compiler::switches()) {
    if (s.stage == Switch::Stage::kRecording) continue;
    if (s.flag()) {
      named.add_options()(s.option().c_str(), "");
    } else {
      named.add_options()(s.option().c_str(), po::value<std::string>(), "");
    }
  }
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
