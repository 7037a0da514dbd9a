// Finds the options of a command in the table of all options, and describes them to its parser.

#include "src/cli/options.hpp"

#include <algorithm>
#include <array>

#include "compiler/options.hpp"

namespace nkisim::cli {
namespace {

namespace po = boost::program_options;
using Kind = OptionInfo::Kind;

constexpr std::array kHaveSwitches = {"run", "compile", "kernel"};

#define NKISIM_OPTION(...)
#define NKISIM_ALIAS(...)
#define NKISIM_WRITES(names) names
#define NKISIM_VALUES(...)
constexpr std::string_view kWritten =
#include "src/cli/options.def"
    ;
#undef NKISIM_VALUES
#undef NKISIM_WRITES
#undef NKISIM_ALIAS
#undef NKISIM_OPTION

// The word of a list such as "run* check" that names a command.
std::string_view entry(std::string_view list, std::string_view command) {
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(' '));
    std::string_view name = word;
    if (name.ends_with('*')) name.remove_suffix(1);
    if (name == command) return word;
    list.remove_prefix(std::min(list.size(), word.size() + 1));
  }
  return {};
}

template <class T>
po::value_semantic* value(const OptionInfo& o) {
  auto* v = po::value<T>();
  if constexpr (std::is_same_v<T, std::string>) {
    if (!o.standard.empty()) v->default_value(std::string(o.standard));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!o.standard.empty())
      v->default_value(std::stod(std::string(o.standard)), std::string(o.standard));
  } else if constexpr (std::is_integral_v<T>) {
    if (!o.standard.empty()) v->default_value(static_cast<T>(std::stoul(std::string(o.standard))));
  }
  return v;
}

po::value_semantic* semantic(const OptionInfo& o) {
  switch (o.kind) {
    case Kind::kFlag:
      return new po::untyped_value(true);
    case Kind::kText:
      return value<std::string>(o);
    case Kind::kTexts:
      return value<std::vector<std::string>>(o);
    case Kind::kCount:
      return value<int>(o);
    case Kind::kSize:
      return value<std::size_t>(o);
    case Kind::kSeed:
      return value<std::uint32_t>(o);
    case Kind::kReal:
      return value<double>(o);
  }
  return new po::untyped_value(true);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string row(std::initializer_list<std::string_view> cells) {
  std::string out = "    (";
  for (const std::string_view cell : cells) out += (out.size() > 5 ? ", " : "") + quoted(cell);
  return out + "),\n";
}

}  // namespace

bool OptionInfo::of(std::string_view command) const { return !entry(commands, command).empty(); }

bool OptionInfo::common_in(std::string_view command) const {
  return entry(commands, command).ends_with('*');
}

bool OptionAlias::of(std::string_view command) const { return !entry(commands, command).empty(); }

std::span<const OptionInfo> all_options() {
  static constexpr auto kOptions = std::to_array<OptionInfo>({
#define NKISIM_OPTION(kind, name, letter, value, standard, commands, text) \
  {Kind::k##kind, name, letter, value, standard, commands, text},
#define NKISIM_ALIAS(...)
#define NKISIM_WRITES(...)
#define NKISIM_VALUES(...)
#include "src/cli/options.def"
#undef NKISIM_VALUES
#undef NKISIM_WRITES
#undef NKISIM_ALIAS
#undef NKISIM_OPTION
  });
  return kOptions;
}

std::span<const OptionAlias> all_aliases() {
  static constexpr auto kAliases = std::to_array<OptionAlias>({
#define NKISIM_OPTION(...)
#define NKISIM_ALIAS(old, now, commands) {old, now, commands},
#define NKISIM_WRITES(...)
#define NKISIM_VALUES(...)
#include "src/cli/options.def"
#undef NKISIM_VALUES
#undef NKISIM_WRITES
#undef NKISIM_ALIAS
#undef NKISIM_OPTION
  });
  return kAliases;
}

bool OptionInfo::writes() const { return !entry(kWritten, name).empty(); }

std::span<const OptionValues> all_values() {
  static constexpr auto kValues = std::to_array<OptionValues>({
#define NKISIM_OPTION(...)
#define NKISIM_ALIAS(...)
#define NKISIM_WRITES(...)
#define NKISIM_VALUES(name, values) {name, values},
#include "src/cli/options.def"
#undef NKISIM_VALUES
#undef NKISIM_WRITES
#undef NKISIM_ALIAS
#undef NKISIM_OPTION
  });
  return kValues;
}

void add_options(po::options_description& named, std::string_view command) {
  for (const OptionInfo& o : all_options()) {
    if (!o.of(command)) continue;
    std::string names(o.name);
    if (!o.letter.empty()) names.append(",").append(o.letter);
    named.add_options()(names.c_str(), semantic(o), std::string(o.text).c_str());
  }
}

std::vector<std::string> without_aliases(std::vector<std::string> words, std::string_view command) {
  for (std::string& word : words) {
    for (const OptionAlias& a : all_aliases()) {
      const std::string old = "--" + std::string(a.old);
      if (!a.of(command) || !word.starts_with(old)) continue;
      if (word.size() == old.size() || word[old.size()] == '=') {
        word.replace(2, a.old.size(), a.now);
        break;
      }
    }
  }
  return words;
}

bool has_switches(std::string_view command) {
  return std::find(kHaveSwitches.begin(), kHaveSwitches.end(), command) != kHaveSwitches.end();
}

std::vector<std::string> option_names(std::string_view command) {
  std::vector<std::string> names = {"--help", "--help-all", "--json", "--log-level"};
  for (const OptionInfo& o : all_options()) {
    if (o.of(command)) names.push_back("--" + std::string(o.name));
  }
  if (!has_switches(command)) return names;
  names.emplace_back("--help-compiler");
  for (const compiler::Switch& s : compiler::switches()) names.push_back("--" + s.option());
  return names;
}

std::string options_as_python() {
  std::string out =
      "\"\"\"The options of all commands; made from src/cli/options.def and compiler/options.def, "
      "regenerate with\n"
      "scripts/fresh --write.\"\"\"\n\n"
      "# kind, name, letter, value, default, commands, text\nOPTIONS = (\n";
  static constexpr std::array<std::string_view, 7> kKinds = {"flag",  "text",  "texts", "count",
                                                             "count", "count", "real"};
  for (const OptionInfo& o : all_options()) {
    out += row({kKinds.at(static_cast<std::size_t>(o.kind)), o.name, o.letter, o.value, o.standard,
                o.commands, o.text});
  }
  out += ")\n# older spelling, name, commands\nALIASES = (\n";
  for (const OptionAlias& a : all_aliases()) out += row({a.old, a.now, a.commands});
  out += ")\n# options whose value is written\nWRITES = {";
  for (const OptionInfo& o : all_options()) {
    if (o.writes() && out.find(quoted(o.name), out.rfind("WRITES")) == std::string::npos)
      out.append(out.ends_with('{') ? "" : ", ").append(quoted(o.name));
  }
  out += "}\n# compiler switch, its choices, text\nSWITCHES = (\n";
  for (const compiler::Switch& s : compiler::switches()) {
    std::string choices;
    for (const std::string_view c : s.choices) choices.append(choices.empty() ? "" : "|").append(c);
    out += row({s.option(), s.flag() ? std::string() : choices, s.brief});
  }
  return out + ")\n";
}

}  // namespace nkisim::cli
