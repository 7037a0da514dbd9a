// nkisim check: reads and checks a trace without running it.
#include <iostream>

#include "src/cli/command.hpp"
#include "src/cli/progress.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  named.add_options()("target,t", po::value<std::string>(),
                      "check against this target instead of the trace's")(
      "allow-over-capacity", "do not fail when SBUF or PSUM is exceeded");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

int run(const Args& args) {
  Progress progress("checking");
  ReadOptions read{.target = args.count("target") != 0 ? args["target"].as<std::string>() : "",
                   .allow_over_capacity = args.count("allow-over-capacity") != 0,
                   .progress = [&progress](std::uint64_t done, std::uint64_t total) {
                     progress.update(done, total);
                   }};
  const TraceFile trace = read_trace(required(args, "trace"), read);
  progress.clear();
  const isa::Program& p = *trace.program;
  if (wants_json(args)) {
    print_json({{"file", p.trace_file()},
                {"target", p.machine().target},
                {"tensors", p.tensors().size()},
                {"instructions", p.insts().size()},
                {"cores", p.cores()},
                {"explicit_semaphores", p.explicit_semaphores()}});
  } else {
    std::cout << p.trace_file() << ": ok, " << p.insts().size() << " instructions, "
              << p.tensors().size() << " tensors, " << p.machine().target
              << (p.explicit_semaphores() ? ", explicit semaphores" : "") << '\n';
  }
  return kOk;
}

}  // namespace

const Command& check_command() {
  static const Command kCommand = {
      "check",
      "check a trace without running it",
      "nkisim check TRACE [options]",
      "  nkisim check traces/softmax.jsonl\n  nkisim check k.nisa --target trn3\n",
      options,
      run};
  return kCommand;
}

}  // namespace nkisim::cli
