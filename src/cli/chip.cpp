// Implements `nkisim chip`, which shows the modules of a chip as SystemC elaborates them.
#include <filesystem>
#include <iostream>
#include <utility>

#include "isa/base/error.hpp"
#include "src/cli/command.hpp"
#include "src/cli/compile_options.hpp"
#include "src/cli/options.hpp"
#include "src/config/config.hpp"
#include "src/files/files.hpp"
#include "src/job/job.hpp"
#include "src/report/report.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_chip {

namespace po = boost::program_options;

constexpr int kMostRanks = 64;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "chip");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

int bounded(const Args& args, const char* option, int most) {
  const int value = given(args, option) ? args[option].as<int>() : 1;
  if (value >= 1 && value <= most) return value;
  usage(isa::Rule::option_value, std::string("--") + option + " is from 1 to " +
                                     std::to_string(most) + ", not " + std::to_string(value));
}

// The modules, and the name of the config that they are of. A trace has its own target, cores, and
// the queues that its transfers take.
std::pair<std::vector<models::Block>, std::string> blocks_of(const Args& args) {
  isa::World world;
  world.ranks = bounded(args, "ranks", kMostRanks);
  const std::vector<std::string> sets = texts(args, "set");
  if (given(args, "trace")) {
    const std::string name = text(args, "trace");
    if (name.find('/') == std::string::npos && !std::filesystem::exists(name)) {
      usage(isa::Rule::option_value,
            "there is no file '" + name + "'; chip takes a trace, or a machine as --target");
    }
    const TraceFile trace =
        read_for(name, {.target = text(args, "target")}, text(args, "config"), sets);
    const models::Config config = config_for(args, *trace.program);
    return {models::blocks(*trace.program, config, world), config.name};
  }
  const models::Config config = load_config(machine_name(args), sets);
  isa::Program program(config.machine);
  const int last = bounded(args, "lnc", config.topology.cores_per_chip) - 1;
  program.add_tensor({.name = "x",  // so that the program has that many cores
                      .space = isa::Space::kSbuf,
                      .dtype = isa::Dtype::kUint8,
                      .core = static_cast<std::uint8_t>(last),
                      .shape = {1, 1}});
  return {models::blocks(program, config, world), config.name};
}

int run(const Args& args) {
  const auto [blocks, config] = blocks_of(args);
  const std::string file = text(args, "svg");
  if (!file.empty()) {
    const std::string drawing = block_svg(blocks, "nkisim: " + config);
    if (file == "-") {
      std::cout << drawing;
      return kOk;
    }
    AtomicFile out(file);
    out.write(drawing);
    out.commit();
  }
  if (wants_json(args)) {
    print_json(block_json(blocks));
  } else if (file.empty()) {
    std::cout << block_tree(blocks);
  }
  return kOk;
}

}  // namespace of_chip
}  // namespace

const Command& chip_command() {
  static const Command kCommand{
      "chip",
      "the modules of a chip, and how they are joined",
      "nkisim chip [TRACE] [options]",
      "  nkisim chip --target trn2                 a tree of modules, ports and bindings\n"
      "  nkisim chip traces/softmax.jsonl          with the DMA queues of a program\n"
      "  nkisim chip --target trn3 --svg chip.svg  the block diagram\n",
      "The DMA queues are those that the trace takes; without one there are none.\n",
      of_chip::options,
      of_chip::run};
  return kCommand;
}

}  // namespace nkisim::cli
