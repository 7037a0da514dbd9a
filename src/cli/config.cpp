// Implements `nkisim config`, which lists, shows and checks machine descriptions.
#include "src/config/config.hpp"

#include <iostream>

#include "isa/base/error.hpp"
#include "src/cli/command.hpp"
#include "src/cli/options.hpp"

namespace nkisim::cli {
namespace {
namespace of_config {

namespace po = boost::program_options;
using nlohmann::json;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "config");
  hidden.add_options()("words", po::value<std::vector<std::string>>());
  positional.add("words", -1);
}

json resolved(const Args& args, const std::string& name) {
  json config = load_config_json(name);
  for (const std::string& item : texts(args, "set")) {
    const std::size_t eq = item.find('=');
    if (eq == std::string::npos)
      usage(isa::Rule::option_value, "--set takes path=value, not '" + item + "'");
    apply_override(config, item.substr(0, eq), item.substr(eq + 1));
  }
  static_cast<void>(parse_config(config, name));
  return config;
}

int diff(const Args& args, const std::string& a, const std::string& b) {
  const json from = resolved(args, a).flatten(), to = resolved(args, b).flatten();
  json changes = json::array();
  for (const auto& [path, value] : from.items()) {
    if (!to.contains(path))
      changes.push_back({{"path", path}, {a, value}, {b, nullptr}});
    else if (to.at(path) != value)
      changes.push_back({{"path", path}, {a, value}, {b, to.at(path)}});
  }
  for (const auto& [path, value] : to.items()) {
    if (!from.contains(path)) changes.push_back({{"path", path}, {a, nullptr}, {b, value}});
  }
  if (args.count("json") != 0) {
    std::cout << changes.dump(1) << '\n';
  } else {
    for (const json& c : changes) {
      std::cout << c.at("path").get<std::string>() << ": " << c.at(a).dump() << " -> "
                << c.at(b).dump() << '\n';
    }
  }
  return changes.empty() ? kOk : kDiffers;
}

// Notes on values of a config that no program can use.
std::vector<std::string> notes(const models::Config& config) {
  std::vector<std::string> list;
  for (const auto& [key, lines] :
       {std::pair{"pe_rows", config.pe_rows}, std::pair{"pe_columns", config.pe_columns}}) {
    if (lines > isa::kPartitions) {
      list.push_back(std::string(key) + " = " + std::to_string(lines) +
                     " takes the time of 128: operands have at most 128 partitions");
    }
  }
  return list;
}

int validate(const Args& args, const std::string& name) {
  const auto found = notes(parse_config(resolved(args, name)));
  if (wants_json(args)) {
    print_json({{"config", name}, {"notes", found}});
    return kOk;
  }
  std::cout << name << ": ok\n";
  for (const std::string& note : found) std::cout << name << ": " << note << '\n';
  return kOk;
}

int run(const Args& args) {
  const auto words = texts(args, "words");
  const std::string action = words.empty() ? "list" : words[0];
  const auto need = [&](std::size_t n, const char* what) {
    if (words.size() != n + 1)
      usage(isa::Rule::config_arguments, "config " + action + " takes " + what);
  };
  if (action == "list") {
    if (wants_json(args)) {
      print_json({{"configs", config_names()}});
    } else {
      for (const std::string& name : config_names()) std::cout << name << '\n';
    }
  } else if (action == "show") {
    need(1, "one config name or file");
    std::cout << resolved(args, words[1]).dump(1) << '\n';
  } else if (action == "validate") {
    need(1, "one config name or file");
    return validate(args, words[1]);
  } else if (action == "schema") {
    need(0, "no name");
    std::cout << config_schema();
  } else if (action == "diff") {
    need(2, "two config names or files");
    return diff(args, words[1], words[2]);
  } else {
    usage(isa::Rule::option_value,
          "config takes list, show, validate, diff or schema, not '" + action + "'");
  }
  return kOk;
}

}  // namespace of_config
}  // namespace

const Command& config_command() {
  static const Command kCommand = {
      "config",
      "show, compare and validate machine descriptions",
      "nkisim config [list | show NAME | diff A B | validate FILE | schema] [options]",
      "  nkisim config show trn2 --set dma.bytes_per_ns=23\n  nkisim config diff trn1 trn2\n",
      "",
      of_config::options,
      of_config::run};
  return kCommand;
}

}  // namespace nkisim::cli
