// nkisim explain: what a metric or an error means.
#include <iostream>
#include <sstream>

#include "src/cli/command.hpp"
#include "src/report/report.hpp"

namespace nkisim::cli {
namespace {
namespace of_explain {

namespace po = boost::program_options;
using Json = nlohmann::ordered_json;

void options(po::options_description& named, po::positional_options_description& positional,
             po::options_description& hidden) {
  named.add_options()("markdown", "the whole table as Markdown (docs/glossary.md)");
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
  for (const ErrorEntry& e : error_table()) line(e.kind, e.meaning);
  std::cout << "\n`nkisim explain NAME` says more; a whole error message works, too.\n";
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
  std::cout << "\n## Errors\n\n`--json` names the kind of an error; so does `nkisim explain "
               "'MESSAGE'`.\n\n| Kind | Meaning | Usual cause | What to do |\n|---|---|---|---|\n";
  for (const ErrorEntry& e : error_table()) {
    std::cout << "| `" << e.kind << "` | " << e.meaning << " | " << e.cause << " | " << e.fix
              << " |\n";
  }
}

void print(const Metric& metric) {
  const MetricEntry& e = *metric.entry;
  std::cout << metric.name << "\n  unit     " << e.unit << "\n  meaning  " << e.meaning
            << "\n  nkisim   " << e.how << "\n  source   " << e.source << '\n';
}

void print(const ErrorEntry& e) {
  std::cout << "error: " << e.kind << "\n  meaning  " << e.meaning << "\n  cause    " << e.cause
            << "\n  fix      " << e.fix << '\n';
}

int show(const std::string& what, bool json) {
  const auto say = [json](const auto& found) {
    if (json)
      std::cout << to_json(found).dump(1) << '\n';
    else
      print(found);
    return kOk;
  };
  if (const Metric* metric = find_metric(what)) return say(*metric);
  if (const ErrorEntry* error = find_error(what)) return say(*error);
  usage("'" + what + "' is neither a metric nor an error" + near_metrics(what));
}

int run(const Args& args) {
  std::string what;
  for (const std::string& word : texts(args, "words")) what += (what.empty() ? "" : " ") + word;
  if (!what.empty()) return show(what, wants_json(args));
  if (args.count("markdown") != 0) {
    print_markdown();
  } else if (wants_json(args)) {
    Json all = {{"metrics", Json::array()}, {"errors", Json::array()}};
    for (const Metric& m : metrics()) all["metrics"].push_back(to_json(m));
    for (const ErrorEntry& e : error_table()) all["errors"].push_back(to_json(e));
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
                                   "what a metric of the summary or an error means",
                                   "nkisim explain [METRIC | ERROR]",
                                   "  nkisim explain                          # lists both\n"
                                   "  nkisim explain mfu_estimated_percent\n"
                                   "  nkisim explain 'data is in HBM; SBUF or PSUM is required'\n",
                                   of_explain::options,
                                   of_explain::run};
  return kCommand;
}

}  // namespace nkisim::cli
