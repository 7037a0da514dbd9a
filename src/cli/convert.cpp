// Implements `nkisim convert`, which converts a file of instructions (trace) between text and
// binary.
#include <iostream>

#include "src/cli/command.hpp"
#include "src/cli/options.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_convert {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "convert");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1).add("output", 1);
}

int run(const Args& args) {
  const TraceFile trace = read_trace(required(args, "trace"));
  const std::string output = required(args, "output");
  const bool patterns = given(args, "patterns");
  if (output == "-") {
    if (wants_json(args))
      usage(isa::Rule::options_exclude, "--json and a trace on standard output exclude each other");
    std::cout << format_trace(trace, patterns ? TraceForm::kPatterns : TraceForm::kText);
    return kOk;
  }
  write_trace(trace, output, patterns);
  const std::size_t instructions = trace.program->insts().size();
  if (wants_json(args))
    print_json({{"file", output}, {"instructions", instructions}});
  else
    std::cout << output << ": " << instructions << " instructions\n";
  return kOk;
}

}  // namespace of_convert
}  // namespace

const Command& convert_command() {
  static const Command kCommand = {
      "convert",
      "convert a trace between text and binary",
      "nkisim convert TRACE -o FILE",
      "  nkisim convert k.nisa -o k.jsonl\n  nkisim convert k.jsonl -o k.nisa.gz\n",
      "",
      of_convert::options,
      of_convert::run};
  return kCommand;
}

}  // namespace nkisim::cli
