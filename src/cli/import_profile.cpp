// Implements `nkisim import-profile`, which makes a file of instructions (trace) of a device
// profile.
#include <cstdio>
#include <iostream>

#include "src/cli/command.hpp"
#include "src/cli/hw_input.hpp"
#include "src/cli/options.hpp"
#include "src/device_profile/device_profile.hpp"
#include "src/log/log.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_import_profile {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "import-profile");
  hidden.add_options()("profile", po::value<std::string>());
  positional.add("profile", 1).add("output", 1);
}

void print_phase(const ImportResult& result) {
  if (!result.throttle_phase) {
    std::cout << "the profile does not show the PE throttle\n";
    return;
  }
  char text[64];
  std::snprintf(text, sizeof text, "--set throttle.first_boundary=%.0f", *result.throttle_phase);
  std::cout << text << '\n';
}

nlohmann::ordered_json to_json(const ImportResult& result, const std::string& output) {
  const isa::Program& p = *result.trace.program;
  nlohmann::ordered_json j = {{"file", output},
                              {"target", p.machine().target},
                              {"instructions", p.insts().size()},
                              {"transfers", result.transfers},
                              {"packets", result.packets},
                              {"left_out", result.left_out},
                              {"warnings", result.warnings}};
  j["unknown_opcodes"] = nlohmann::ordered_json::object();
  for (const auto& [opcode, count] : result.unknown_opcodes) j["unknown_opcodes"][opcode] = count;
  if (result.throttle_phase) j["throttle_phase_ns"] = *result.throttle_phase;
  return j;
}

int run(const Args& args) {
  const std::string input = required(args, "profile");
  const std::string output = required(args, "output");
  const ImportOptions options{.target = text(args, "target"),
                              .keep_preamble = args.count("keep-preamble") != 0,
                              .packets = args.count("model-packets") == 0};
  const ImportResult result = import_profile(read_profile_input(input), options);
  for (const std::string& w : result.warnings) log::warn(w);
  for (const auto& [opcode, count] : result.unknown_opcodes) {
    log::warn("unknown opcode " + opcode + " (" + std::to_string(count) +
              " times) runs at its engine's default cost");
  }
  write_trace(result.trace, output);
  const isa::Program& p = *result.trace.program;
  if (wants_json(args)) {
    print_json(to_json(result, output));
    return kOk;
  }
  std::cout << output << ": " << p.insts().size() << " instructions, " << result.transfers
            << " DMA transfers of " << result.packets << " packets, " << p.machine().target
            << ", timing only; " << result.left_out << " runtime instructions left out\n";
  if (args.count("throttle-from-profile") != 0) print_phase(result);
  return kOk;
}

}  // namespace of_import_profile
}  // namespace

const Command& import_profile_command() {
  static const Command kCommand = {
      "import-profile",
      "make a trace of a device profile for timing",
      "nkisim import-profile HW.json[.gz] -o TRACE [options]",
      "  neuron-profile view -n k.neff -s k.ntff --output-format json --output-file hw.json\n"
      "  nkisim import-profile hw.json -o k.nisa\n"
      "  nkisim compare k.nisa hw.json\n",
      "--throttle-from-profile prints the --set that gives `run` and `compare` this run's phase.\n",
      of_import_profile::options,
      of_import_profile::run};
  return kCommand;
}

}  // namespace nkisim::cli
