// nkisim convert: between the text and binary forms of a trace.
#include <iostream>

#include "src/cli/command.hpp"
#include "src/trace_reader.hpp"
#include "src/trace_writer.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  named.add_options()(
      "output,o", po::value<std::string>(),
      "where to write: .jsonl is text, .nisa is binary, a further .gz compresses; - is text on "
      "standard output");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1).add("output", 1);
}

int run(const Args& args) {
  const TraceFile trace = read_trace(required(args, "trace"));
  const std::string output = required(args, "output");
  if (output == "-") {
    std::cout << format_trace(trace, TraceForm::kText);
    return kOk;
  }
  write_trace(trace, output);
  std::cout << output << ": " << trace.program->insts().size() << " instructions\n";
  return kOk;
}

}  // namespace

const Command& convert_command() {
  static const Command kCommand = {
      "convert",
      "convert a trace between text and binary",
      "nkisim convert TRACE -o FILE",
      "  nkisim convert k.nisa -o k.jsonl\n  nkisim convert k.jsonl -o k.nisa.gz\n",
      options,
      run};
  return kCommand;
}

}  // namespace nkisim::cli
