// Implements `nkisim isa`, which prints the table of all instructions.
#include <iostream>

#include "isa/base/error.hpp"
#include "src/cli/command.hpp"
#include "src/cli/options.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {
namespace {
namespace of_isa {

namespace po = boost::program_options;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "isa");
  hidden.add_options()("words", po::value<std::vector<std::string>>());
  positional.add("words", -1);
}

const isa::OpSpec& find(const std::string& name) {
  if (const isa::OpSpec* op = isa::find_op(name)) return *op;
  const std::string near = nearest_op(name);
  throw isa::Error(
      isa::Rule::unknown_instruction,
      "unknown instruction '" + name + "'" + (near.empty() ? "" : "; did you mean " + near + "?"));
}

int show_coverage(bool json) {
  const auto rows = coverage();
  int missing = 0;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  if (!json) std::cout << "function                  trn1      trn2      trn3\n";
  for (const CoverageRow& row : rows) {
    nlohmann::ordered_json j = {{"function", row.function}};
    std::string line =
        row.function + std::string(row.function.size() < 26 ? 26 - row.function.size() : 1, ' ');
    for (std::size_t i = 0; i < row.states.size(); ++i) {
      j[coverage_targets()[i]] = row.states[i];
      line += row.states[i] + std::string(10 - row.states[i].size(), ' ');
      missing += row.states[i] == "missing" ? 1 : 0;
    }
    all.push_back(j);
    if (!json) std::cout << line << '\n';
  }
  if (json)
    std::cout << all.dump(1) << '\n';
  else
    std::cout << rows.size() << " functions, " << missing / 3
              << " missing; '-' = the generation does not have it\n";
  return missing == 0 ? kOk : kDiffers;
}

int run(const Args& args) {
  if (args.count("coverage") != 0) return show_coverage(args.count("json") != 0);
  const auto words = args.count("words") != 0 ? args["words"].as<std::vector<std::string>>()
                                              : std::vector<std::string>{"list"};
  const std::string target = args.count("target") != 0 ? args["target"].as<std::string>() : "";
  if (!target.empty() && !isa::find_machine(target))
    usage(isa::Rule::unknown_target,
          "unknown target '" + target + "'; known: trn1, inf2, trn2, trn3");
  if (words.front() == "show" && words.size() != 2)
    usage(isa::Rule::option_value, "isa show takes one instruction name");
  if (words.front() != "list") {
    const isa::OpSpec& op = find(words.back());
    std::cout << (args.count("json") != 0 ? op_json(op).dump(1) + "\n" : op_text(op, target));
    return kOk;
  }
  if (args.count("json") != 0)
    std::cout << catalogue_json();
  else if (args.count("markdown") != 0)
    std::cout << catalogue_markdown();
  else {
    for (const isa::OpSpec* op : isa::op_table()) {
      std::cout << op->name << std::string(op->name.size() < 26 ? 26 - op->name.size() : 1, ' ')
                << op->doc << '\n';
    }
  }
  return kOk;
}

}  // namespace of_isa
}  // namespace

const Command& isa_command() {
  static const Command kCommand = {
      "isa",
      "list and describe instructions",
      "nkisim isa [list | show NAME] [options]",
      "  nkisim isa list\n  nkisim isa show nc_matmul --target trn3\n  nkisim isa --coverage\n",
      "",
      of_isa::options,
      of_isa::run};
  return kCommand;
}

}  // namespace nkisim::cli
