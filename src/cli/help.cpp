// Formats the texts of `nkisim --help` and `nkisim COMMAND --help`.

#include "src/cli/help.hpp"

#include <algorithm>
#include <array>
#include <iostream>
#include <sstream>

#include "compiler/options.hpp"
#include "src/cli/options.hpp"
#include "src/cli/python_command.hpp"

namespace nkisim::cli {
namespace {

constexpr std::size_t kHelpWidth = 100;                      // of a line
constexpr std::size_t kTextColumn = 28, kSwitchColumn = 44;  // where a text starts

struct HelpGroup {
  std::string_view title;
  std::array<std::string_view, 9> commands;
};

constexpr std::array kGroups = {
    HelpGroup{"run", {"demo", "new", "kernel", "run"}},
    HelpGroup{"understand", {"view", "debug", "compare", "explain", "disasm", "isa"}},
    HelpGroup{"improve", {"advise", "sweep", "tune"}},
    HelpGroup{"judge", {"check", "same", "evaluate", "validate", "calibrate", "probe"}},
    HelpGroup{"models and ranks", {"model", "collective", "chip"}},
    HelpGroup{"files and tools",
              {"compile", "convert", "import-profile", "config", "doctor", "lsp", "mcp", "worker",
               "completion"}},
};

std::string summary_of(std::string_view name) {
  for (const Command& c : commands()) {
    if (c.name == name) return c.summary;
  }
  for (const PythonCommand& c : python_commands()) {
    if (c.name == name) return c.summary;
  }
  return {};
}

// "  -t, --target TARGET      trn1, ...", with the text's further lines below its first.
void print_row(std::ostream& out, const std::string& head, const std::string& text,
               std::size_t column = kTextColumn) {
  std::istringstream words(text);
  std::string line = "  " + head;
  if (line.size() + 2 > column) {
    out << line << '\n';
    line.clear();
  }
  line.resize(column, ' ');
  std::size_t used = column;
  for (std::string word; words >> word;) {
    if (used > column && used + 1 + word.size() > kHelpWidth) {
      out << line << '\n';
      line = std::string(column, ' ');
      used = column;
    }
    line += (used > column ? " " : "") + word;
    used = line.size();
  }
  out << line << '\n';
}

std::string head_of(const OptionInfo& o) {
  std::string head = o.letter.empty() ? "" : "-" + std::string(o.letter) + ", ";
  head.append("--").append(o.name);
  if (!o.value.empty()) head.append(" ").append(o.value);
  return head;
}

void print_options(std::ostream& out, const Command& c, bool all) {
  for (const OptionInfo& o : all_options()) {
    if (all ? !o.of(c.name) : !o.common_in(c.name)) continue;
    std::string text(o.text);
    if (!o.standard.empty()) text.append(" (default: ").append(o.standard).append(")");
    print_row(out, head_of(o), text);
  }
  print_row(out, "--json", "result and errors as JSON on standard output");
  if (!all) return;
  print_row(out, "--log-level LEVEL",
            "trace, debug, info, warning, error or off; by category and into a file: "
            "compiler=debug,dma=info:run.log (default: NKISIM_LOG, else warning)");
  for (const OptionAlias& a : all_aliases()) {
    if (a.of(c.name)) out << "  --" << a.old << " is an older spelling of --" << a.now << '\n';
  }
}

std::string synopsis(const Command& c) {
  return "usage: " + c.synopsis + "\n\n" + c.summary + "\n";
}

void print_short(std::ostream& out, const Command& c) {
  out << synopsis(c) << "\nexamples:\n" << c.examples << "\noptions:\n";
  print_options(out, c, false);
  out << "\n--help-all has every option";
  if (has_switches(c.name)) out << ", --help-compiler the compiler's switches";
  out << ".\n";
}

void print_all(std::ostream& out, const Command& c) {
  out << synopsis(c) << "\nexamples:\n" << c.examples << "\noptions:\n";
  print_options(out, c, true);
  if (!c.notes.empty()) out << '\n' << c.notes;
  if (has_switches(c.name)) out << "\n--help-compiler has the compiler's switches.\n";
}

void print_switches(std::ostream& out, const Command& c) {
  out << "usage: " << c.synopsis << "\n\n"
      << "Switches of the compiler. The first choice is what kernels get; the one in brackets is "
         "what\na trace gets that is placed already. docs/compiler.md describes them.\n\n";
  for (const compiler::Switch& s : compiler::switches()) {
    if (s.stage == compiler::Switch::Stage::kRecording) continue;
    std::string choices;
    for (const std::string_view choice : s.choices) {
      const bool of_trace = choice == s.of_trace;
      choices.append(choices.empty() ? "" : "|").append(of_trace ? "[" : "").append(choice);
      choices.append(of_trace ? "]" : "");
    }
    print_row(out, "--" + s.option() + (s.flag() ? "" : " " + choices), std::string(s.brief),
              kSwitchColumn);
  }
}

nlohmann::ordered_json table(const Command& c) {
  nlohmann::ordered_json options = nlohmann::ordered_json::array();
  for (const OptionInfo& o : all_options()) {
    if (!o.of(c.name)) continue;
    options.push_back({{"name", o.name},
                       {"letter", o.letter},
                       {"takes_value", o.kind != OptionInfo::Kind::kFlag},
                       {"default", o.standard},
                       {"text", o.text}});
  }
  return options;
}

}  // namespace

void print_overview(std::ostream& out) {
  out << "nkisim " << NKISIM_VERSION
      << ": simulates AWS NeuronCore (Trainium 1, 2, 3) kernels, values and time\n\n"
         "usage: nkisim COMMAND [options]\n";
  for (const HelpGroup& group : kGroups) {
    out << '\n' << group.title << '\n';
    for (const std::string_view name : group.commands) {
      if (name.empty()) continue;
      out << "  " << name << std::string(16 - name.size(), ' ') << summary_of(name) << '\n';
    }
  }
  out << "\nOlder spellings: `report` is `view -o FILE.html`, `diff-profile` is `compare` with a "
         "device profile.\n"
         "`nkisim COMMAND --help` describes a command, with examples.\n"
         "exit codes: 0 ok, 1 results differ or over budget, 2 usage, 3 bad input, 4 internal\n"
         "error, 130 interrupted (Ctrl-C)\n";
}

bool printed_help(const Command& c, const Args& args) {
  const bool all = given(args, "help-all");
  if (!all && !given(args, "help") && !given(args, "help-compiler")) return false;
  if (wants_json(args)) {
    print_json({{"command", c.name}, {"options", table(c)}});
  } else if (given(args, "help-compiler")) {
    print_switches(std::cout, c);
  } else {
    (all ? print_all : print_short)(std::cout, c);
  }
  return true;
}

}  // namespace nkisim::cli
