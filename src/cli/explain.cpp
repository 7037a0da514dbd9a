// Implements `nkisim explain`, which explains a metric, an error or a rule, and says which releases
// have a given name of NKI.
#include <array>
#include <iostream>
#include <ranges>
#include <sstream>

#include "isa/base/nearest.hpp"
#include "src/cli/command.hpp"
#include "src/cli/options.hpp"
#include "src/cli/python_command.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {
namespace {
namespace of_explain {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  add_options(named, "explain");
  hidden.add_options()("words", po::value<std::vector<std::string>>());
  positional.add("words", -1);
}

void print_list() {
  constexpr std::size_t kColumn = 44;
  const auto line = [](std::string_view name, std::string_view text) {
    std::cout << "  " << name << std::string(name.size() < kColumn ? kColumn - name.size() : 1, ' ')
              << text << '\n';
  };
  std::cout << "metrics of the summary ({engine}: tensor, vector, scalar, gpsimd, sync;\n"
               "{dma}: static, software_dynamic, hardware_dynamic; {core}: nc0, nc1)\n";
  for (const MetricEntry& e : metric_table()) line(e.name, e.meaning);
  std::cout << "\nkinds of errors\n";
  for (const isa::KindInfo& kind : isa::all_kinds()) line(kind.name, kind.meaning);
  std::cout << "\n`nkisim explain NAME` says more, of a kind also its rules, which --suppress and\n"
               "--error name; the words of an error message work, too.\n";
}

// Every rule with what it is without and with --strict.
void print_rules() {
  constexpr std::array<std::string_view, 3> kLevels = {"-", "warning", "error"};
  std::cout << "\n## Rules\n\nThe ids of messages, in `--json` (`rule`), in Python "
               "(`Error.rule`), in `--suppress` and `--error`. Since: the first SDK release whose "
               "documents have the rule. Of these, values may decide, which runs of time alone and "
               "`nkisim check` lack:";
  std::string_view between = " ";
  for (const isa::RuleInfo& r : isa::all_rules()) {
    if (!r.values) continue;
    std::cout << between << '`' << r.id << '`';
    between = ", ";
  }
  std::cout << ".\n\n| Rule | Kind | Meaning | Is | With `--strict` | Since |\n"
               "|---|---|---|---|---|---|\n";
  for (const isa::RuleInfo& r : isa::all_rules()) {
    std::cout << "| `" << r.id << "` | " << isa::info(r.kind).name << " | " << r.meaning << " | "
              << kLevels.at(static_cast<std::size_t>(r.normal)) << " | "
              << kLevels.at(static_cast<std::size_t>(r.strict)) << " | "
              << (r.from == 0 ? "" : "2." + std::to_string(r.from)) << " |\n";
  }
}

void print_markdown() {
  std::cout << "# Glossary\n\nWritten by `nkisim explain --markdown`; regenerate with "
               "`scripts/fresh --write`.\n\n## Metrics of the summary\n\nIn JSON and Parquet "
               "every `*_percent` is a fraction. `{engine}` is tensor, vector, scalar, gpsimd or "
               "sync; `{dma}` static, software_dynamic or hardware_dynamic; `{core}` nc0 or "
               "nc1.\n\n| Metric | Unit | Meaning | How nkisim obtains it | Name from |\n"
               "|---|---|---|---|---|\n";
  for (const MetricEntry& e : metric_table()) {
    std::cout << "| `" << e.name << "` | " << e.unit << " | " << e.meaning << " | " << e.how
              << " | " << e.source << " |\n";
  }
  std::cout << "\n## Errors\n\n`--json` names the kind and the rule of an error; `nkisim explain "
               "'MESSAGE'` finds them by the message's words.\n\n| Kind | Meaning | Usual cause | "
               "What to do |\n|---|---|---|---|\n";
  for (const isa::KindInfo& kind : isa::all_kinds()) {
    std::cout << "| `" << kind.name << "` | " << kind.meaning << " | " << kind.cause << " | "
              << kind.cure << " |\n";
  }
  print_rules();
}

void print(const Metric& metric) {
  const MetricEntry& e = *metric.entry;
  std::cout << metric.name << "\n  unit     " << e.unit << "\n  meaning  " << e.meaning
            << "\n  nkisim   " << e.how << "\n  source   " << e.source << '\n';
}

void print(const isa::KindInfo& kind) {
  std::cout << "error: " << kind.name << "\n  meaning  " << kind.meaning << "\n  cause    "
            << kind.cause << "\n  fix      " << kind.cure << "\n  rules    ";
  std::string_view between;
  for (const isa::Rule rule : rules_of(kind)) {
    std::cout << between << isa::name(rule);
    between = ", ";
  }
  std::cout << '\n';
}

void print_lines(std::string_view label, std::string_view lines) {
  for (const auto line : std::views::split(lines, '\n')) {
    std::cout << label << std::string_view(line.begin(), line.end()) << '\n';
    label = "           ";
  }
}

void print(const isa::Rule& rule) {
  const isa::RuleInfo& r = isa::info(rule);
  std::cout << (r.normal == isa::Level::kError ? "error: " : "warning: ") << isa::info(r.kind).name
            << "\n  rule     " << r.id << "\n  meaning  " << r.meaning << "\n  cause    "
            << isa::cause(rule) << "\n  fix      " << isa::cure(rule) << '\n';
  if (r.values) std::cout << "  asked    where it depends on values by runs that have them\n";
  print_lines("  says     ", r.says);
  if (const isa::Advice* own = isa::advice(rule); own != nullptr && !own->wrong.empty()) {
    print_lines("  wrong    ", own->wrong);
    print_lines("  right    ", own->right);
  }
}

// True if it is spelled as a name in a module of NKI.
bool is_public_name(std::string_view what) {
  constexpr std::array<std::string_view, 5> kModules = {"nl.", "nisa.", "ncc.", "nki.",
                                                        "neuronxcc."};
  return what.find(' ') == std::string_view::npos &&
         std::ranges::any_of(kModules, [&](std::string_view m) { return what.starts_with(m); });
}

// "; did you mean operand_size?" of rules, kinds and metrics; else where all are listed.
std::string near_names(const std::string& what) {
  std::vector<std::string_view> names;
  for (const isa::RuleInfo& rule : isa::all_rules()) names.push_back(rule.id);
  for (const isa::KindInfo& kind : isa::all_kinds()) names.push_back(kind.name);
  for (const Metric& metric : metrics()) names.push_back(metric.name);
  const std::string said = isa::suggest(what, names);
  return said.empty() ? near_metrics(what) : said;
}

int show(const std::string& what, bool json) {
  if (is_public_name(what)) {
    std::vector<std::string> words = {what};
    if (json) words.emplace_back("--json");
    return call_module("nkisim.tools.explain_name", words);
  }
  const auto say = [json](const auto& found) {
    if (json)
      std::cout << to_json(found).dump(1) << '\n';
    else
      print(found);
    return kOk;
  };
  if (const Metric* metric = find_metric(what)) return say(*metric);
  if (const isa::KindInfo* kind = find_kind(what)) return say(*kind);
  if (const auto rule = isa::find_rule(what)) return say(*rule);
  if (const auto rule = rule_of_message(what)) return say(*rule);
  const auto near = rules_about(what);
  if (!near.empty()) {
    if (json) return say(near.front());
    std::cout << "No message has these words. The nearest rules:";
    for (const isa::Rule rule : near) std::cout << ' ' << isa::info(rule).id;
    std::cout << "; the first of them:\n";
    return say(near.front());
  }
  usage(isa::Rule::explained_name,
        "'" + what + "' is neither a metric nor an error" + near_names(what));
}

int run(const Args& args) {
  std::string what;
  for (const std::string& word : texts(args, "words")) what += (what.empty() ? "" : " ") + word;
  if (!what.empty()) return show(what, wants_json(args));
  if (args.count("markdown") != 0) {
    print_markdown();
  } else if (wants_json(args)) {
    Json all = {{"metrics", Json::array()}, {"errors", Json::array()}, {"rules", Json::array()}};
    for (const Metric& m : metrics()) all["metrics"].push_back(to_json(m));
    for (const isa::KindInfo& kind : isa::all_kinds()) all["errors"].push_back(to_json(kind));
    for (std::size_t i = 0; i < isa::all_rules().size(); ++i) {
      all["rules"].push_back(to_json(static_cast<isa::Rule>(i)));
    }
    std::cout << all.dump(1) << '\n';
  } else {
    print_list();
  }
  return kOk;
}

}  // namespace of_explain
}  // namespace

const Command& explain_command() {
  static const Command kCommand = {"explain",
                                   "what a metric, an error or a name of NKI means",
                                   "nkisim explain [METRIC | KIND | RULE | MESSAGE | NAME]",
                                   "  nkisim explain mfu_estimated_percent\n"
                                   "  nkisim explain nl.tiles                 # its releases\n"
                                   "  nkisim explain 'data is in HBM; SBUF or PSUM is required'\n",
                                   "",
                                   of_explain::options,
                                   of_explain::run};
  return kCommand;
}

}  // namespace nkisim::cli
