// Implements `nkisim disasm`, which prints a file of instructions (trace) in the profiler's syntax,
// one instruction a line.
#include "isa/program/disasm.hpp"

#include <iostream>

#include "src/cli/command.hpp"
#include "src/cli/options.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_disasm {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "disasm");
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

nlohmann::ordered_json rows(const TraceFile& trace, bool parts) {
  const isa::Program& p = *trace.program;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const isa::Inst& inst : p.insts()) {
    nlohmann::ordered_json row = {{"line", inst.loc.trace_line},
                                  {"core", inst.core},
                                  {"engine", isa::name(inst.engine)},
                                  {"instruction", isa::spec(inst).name},
                                  {"text", isa::disasm(p, inst, trace.semaphore_names)}};
    if (parts) row["parts"] = isa::disasm_parts(p, inst, trace.semaphore_names);
    all.push_back(std::move(row));
  }
  return all;
}

int run(const Args& args) {
  const TraceFile trace = read_trace(
      required(args, "trace"), {.target = text(args, "target"), .machine = {}, .progress = {}});
  const isa::Program& p = *trace.program;
  if (wants_json(args)) {
    print_json({{"instructions", rows(trace, args.count("parts") != 0)}});
    return kOk;
  }
  for (const isa::Inst& inst : p.insts()) {
    const std::string engine(isa::name(inst.engine));
    const std::string margin = engine + std::string(engine.size() < 8 ? 8 - engine.size() : 1, ' ');
    if (args.count("parts") == 0) {
      std::cout << margin << isa::disasm(p, inst, trace.semaphore_names) << '\n';
      continue;
    }
    for (const std::string& line : isa::disasm_parts(p, inst, trace.semaphore_names)) {
      std::cout << margin << line << '\n';
    }
  }
  return kOk;
}

}  // namespace of_disasm
}  // namespace

const Command& disasm_command() {
  static const Command kCommand = {
      "disasm",
      "print a trace in the profiler's operand syntax",
      "nkisim disasm TRACE [options]",
      "  nkisim disasm traces/softmax.jsonl\n  nkisim disasm traces/matmul_psum.jsonl --parts\n",
      "",
      of_disasm::options,
      of_disasm::run};
  return kCommand;
}

}  // namespace nkisim::cli
