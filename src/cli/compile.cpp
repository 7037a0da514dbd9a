// Implements `nkisim compile`, which runs the compiler passes on a kernel's instructions and writes
// the result to a file.
#include <iomanip>
#include <iostream>
#include <sstream>

#include "src/cli/compile_options.hpp"
#include "src/cli/options.hpp"
#include "src/cli/progress.hpp"
#include "src/job/job.hpp"
#include "src/trace/trace.hpp"

namespace nkisim::cli {
namespace {
namespace of_compile {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "compile");
  add_compiler_options(named);
  hidden.add_options()("trace", po::value<std::string>());
  positional.add("trace", 1);
}

TraceFile read(const Args& args) {
  Progress progress("reading");
  return read_for(
      required(args, "trace"),
      {.target = text(args, "target"),
       .machine = {},
       .allow_over_capacity = given(args, "over-capacity"),
       .progress = [&](std::uint64_t done, std::uint64_t all) { progress.update(done, all); }},
      text(args, "config"), texts(args, "set"));
}

std::string explanation(const compiler::Compiled& compiled) {
  std::ostringstream out;
  for (std::size_t k = 0; k < compiled.steps.size(); ++k) {
    const auto& step = compiled.steps[k];
    out << std::left << std::setw(9) << step.pass << std::right << std::setw(8) << step.changed
        << ' ' << compiler::pipeline()[k].counts;
    if (!step.text.empty()) out << " (" << step.text << ')';
    out << '\n';
  }
  return out.str();
}

// The choice of each switch; for "auto" also its meaning.
std::string switches(const compiler::Compiled& compiled) {
  std::string out;
  for (const auto& [name, choice] : compiler::named_choices(compiled.choices)) {
    out.append(out.empty() ? "switches  " : " ").append(name).append("=").append(choice);
  }
  return out + '\n';
}

nlohmann::ordered_json switches_as_json(const compiler::Compiled& compiled) {
  auto out = nlohmann::ordered_json::object();
  for (const auto& [name, choice] : compiler::named_choices(compiled.choices)) out[name] = choice;
  return out;
}

nlohmann::ordered_json steps_as_json(const compiler::Compiled& compiled) {
  auto steps = nlohmann::ordered_json::array();
  for (const auto& step : compiled.steps) {
    steps.push_back({{"pass", step.pass}, {"changed", step.changed}, {"text", step.text}});
  }
  return steps;
}

int run(const Args& args) {
  if (given(args, "markdown")) {
    std::cout << compiler::switches_as_markdown();
    return kOk;
  }
  const std::string output = required(args, "output");
  const bool on_stdout = output == "-";
  if (on_stdout && wants_json(args)) {
    usage(isa::Rule::options_exclude, "--json and a trace on standard output exclude each other");
  }
  TraceFile trace = read(args);
  const std::size_t before = trace.program->insts().size();
  const compiler::Compiled compiled = compile(args, trace, trace.program->virtual_addresses());
  const std::size_t after = trace.program->insts().size();
  if (on_stdout) {
    std::cout << format_trace(trace, TraceForm::kText);
  } else {
    write_trace(trace, output);
  }
  if (wants_json(args)) {
    print_json({{"file", output},
                {"instructions", after},
                {"recorded_instructions", before},
                {"passes", steps_as_json(compiled)},
                {"compiler", switches_as_json(compiled)}});
    return kOk;
  }
  std::ostream& said = on_stdout ? std::cerr : std::cout;
  if (given(args, "passes")) said << explanation(compiled) << switches(compiled);
  if (!on_stdout)
    said << output << ": " << after << " instructions, " << before << " as recorded\n";
  return kOk;
}

}  // namespace of_compile
}  // namespace

const Command& compile_command() {
  static const Command kCommand = {
      "compile",
      "order, shorten and place a recorded program",
      "nkisim compile TRACE -o FILE [options]",
      "  nkisim kernel k.py:f --arg 'x=f32[128,512]' --save-recorded k.nisa\n"
      "  nkisim compile k.nisa -o placed.nisa --passes\n"
      "  nkisim compile k.nisa -o in_order.nisa --schedule program --dma-queues one\n",
      "Tensors without an address (\"addresses\": \"open\" or \"virtual\") get one; a trace that "
      "is\n"
      "placed already is changed only as the switches say. docs/compiler.md has the passes.\n",
      of_compile::options,
      of_compile::run};
  return kCommand;
}

}  // namespace nkisim::cli
