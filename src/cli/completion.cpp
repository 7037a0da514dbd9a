// Implements `nkisim completion`, which prints shell completion scripts made from the commands' own
// options.
#include <algorithm>
#include <iostream>
#include <sstream>

#include "compiler/options.hpp"
#include "src/cli/command.hpp"
#include "src/cli/options.hpp"
#include "src/cli/python_command.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {
namespace {
namespace of_completion {

namespace po = boost::program_options;

void options(po::options_description&, po::positional_options_description& positional,
             po::options_description& hidden) {
  hidden.add_options()("shell", po::value<std::string>());
  positional.add("shell", 1);
}

std::string long_options(const std::string& command) {
  std::string text;
  for (const std::string& name : option_names(command)) text += (text.empty() ? "" : " ") + name;
  return text;
}

// The values of options that have a list of them.
void print_values(std::ostream& out) {
  out << "  case ${COMP_WORDS[COMP_CWORD-1]} in\n";
  for (const OptionValues& o : all_values()) {
    const auto row =
        std::ranges::find_if(all_options(), [&](const OptionInfo& i) { return i.name == o.name; });
    const bool letter = row != all_options().end() && !row->letter.empty();
    out << "    --" << o.name << (letter ? "|-" + std::string(row->letter) : "") << ") values=\""
        << o.values << "\" ;;\n";
  }
  for (const compiler::Switch& s : compiler::switches()) {
    if (s.flag()) continue;
    out << "    --" << s.option() << ") values=\"";
    for (const std::string_view choice : s.choices) out << choice << ' ';
    out << "\" ;;\n";
  }
  out << "  esac\n  if [[ -n $values && $cur != -* ]]; then COMPREPLY=($(compgen -W \"$values\" -- "
         "\"$cur\")); return; fi\n";
}

void print_bash(std::ostream& out) {
  std::string names;
  for (const Command& c : commands()) names += c.name + " ";
  for (const PythonCommand& c : python_commands()) names += c.name + " ";
  out << "_nkisim() {\n  local cur=${COMP_WORDS[COMP_CWORD]} options=--help values=\n"
         "  if ((COMP_CWORD == 1)); then COMPREPLY=($(compgen -W \""
      << names << "\" -- \"$cur\")); return; fi\n";
  print_values(out);
  out << "  case ${COMP_WORDS[1]} in\n";
  const auto branch = [&out](const std::string& name) {
    out << "    " << name << ") options=\"" << long_options(name) << "\" ;;\n";
  };
  for (const Command& c : commands()) branch(c.name);
  for (const PythonCommand& c : python_commands()) branch(c.name);
  out << "  esac\n  if [[ ${COMP_WORDS[1]} == explain && $cur != -* ]]; then\n    "
         "COMPREPLY=($(compgen -W "
         "\"";
  for (const Metric& m : metrics()) out << m.name << ' ';
  for (const isa::KindInfo& kind : isa::all_kinds()) out << kind.name << ' ';
  for (const isa::RuleInfo& rule : isa::all_rules()) out << rule.id << ' ';
  out << "\" -- \"$cur\")); return; fi\n  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "
         "\"$options\" -- \"$cur\"))\n"
         "  else COMPREPLY=($(compgen -f -- \"$cur\")); fi\n}\ncomplete -o filenames -F _nkisim "
         "nkisim\n";
}

int run(const Args& args) {
  const std::string shell = required(args, "shell");
  std::ostringstream script;
  if (shell == "python") {
    std::cout << options_as_python();
    return kOk;
  }
  if (shell != "bash" && shell != "zsh")
    usage(isa::Rule::option_value, "completion knows bash and zsh, not '" + shell + "'");
  // zsh loads a file of its function path as a function when it is first asked, so that the first
  // answer is due at the end of the file; where the file is sourced none is.
  if (shell == "zsh") script << "#compdef nkisim\nautoload -U +X bashcompinit && bashcompinit\n";
  print_bash(script);
  if (shell == "zsh")
    script
        << "if [[ ${funcstack[1]} == _nkisim ]]; then _bash_complete -o filenames -F _nkisim; fi\n";
  if (wants_json(args))
    print_json({{"shell", shell}, {"script", script.str()}});
  else
    std::cout << script.str();
  return kOk;
}

}  // namespace of_completion
}  // namespace

const Command& completion_command() {
  static const Command kCommand = {"completion",
                                   "print a shell completion script",
                                   "nkisim completion bash|zsh",
                                   "  source <(nkisim completion bash)\n",
                                   "",
                                   of_completion::options,
                                   of_completion::run};
  return kCommand;
}

}  // namespace nkisim::cli
