// Prints the results of `nkisim run`: latency, outputs, limits and ranks.

#include "src/cli/run_result.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <set>
#include <sstream>

#include "src/cli/interrupt.hpp"
#include "src/files/files.hpp"

namespace nkisim::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string short_number(double x) {
  std::ostringstream s;
  s << std::setprecision(4) << x;
  return s.str();
}

std::string bottleneck(const Outcome& out) {
  return out.totals.at("bottleneck").get<std::string>();
}

// The lines most runs are looked at for.
void print_brief(const Outcome& out) {
  for (const Json& line : out.totals.at("brief")) std::cout << line.get<std::string>() << '\n';
}

// "rank 2: ", of several.
std::string lead(const Outcome& out, std::size_t rank) {
  return out.ranks.size() == 1 ? "" : "rank " + std::to_string(rank) + ": ";
}

std::string not_compared(const std::string& name) {
  return "output " + name + ": not compared, --expect has no array of this name";
}

// "output o: 3 of 64 elements differ (rtol ...; worst at ...)".
std::string describe(const Args& args, const Comparison& row) {
  std::ostringstream text;
  text << "output " << row.tensor << ": ";
  if (row.equal)
    text << "equal, " << row.elements << " elements";
  else
    text << row.mismatches << " of " << row.elements << " elements differ";
  if (given(args, "rel-l2"))
    text << " (relative L2 error " << short_number(row.rel_l2) << " of at most "
         << args["rel-l2"].as<double>();
  else
    text << " (rtol " << args["rtol"].as<double>() << ", atol " << args["atol"].as<double>();
  text << "; largest error " << short_number(row.max_abs_error) << " absolute, "
       << short_number(row.max_rel_error) << " relative";
  if (!row.equal) {
    text << "; worst at " << row.worst << ": got " << short_number(row.got) << ", expected "
         << short_number(row.expected);
  }
  text << ")";
  return text.str();
}

std::string over_early(const Outcome& out) {
  return out.stopped_by.empty() ? "the run was interrupted" : out.stopped_by + " was reached";
}

void print_interruption(const Outcome& out) {
  if (Interrupts::signal() == 0 && out.stopped_by.empty()) return;
  const std::string how = out.stopped_by.empty() ? "interrupted" : "stopped by " + out.stopped_by;
  if (!out.partial) {
    std::cerr << "nkisim: " << how << " after the simulation; what-ifs may be missing\n";
    return;
  }
  std::uint64_t instructions = 0;
  for (const Outcome::Rank& r : out.ranks) instructions += r.instructions;
  std::cerr << "nkisim: " << how << " after " << instructions << " instructions"
            << (out.timed ? ", " + short_number(models::to_ns(out.end) / 1e3) +
                                " us of simulated time; every report is of this part"
                          : "")
            << '\n';
}

void print_outputs(const Args& args, const Outcome& out, bool quiet) {
  for (std::size_t r = 0; r < out.ranks.size(); ++r) {
    for (const Comparison& row : out.ranks[r].outputs) {
      if (!row.equal)
        std::cerr << lead(out, r) << describe(args, row) << '\n';
      else if (!quiet && out.ranks.size() == 1)
        std::cout << describe(args, row) << '\n';
    }
    for (const std::string& name : out.ranks[r].not_compared) {
      std::cerr << lead(out, r) << not_compared(name) << '\n';
    }
  }
}

// Budgets that are broken on standard error, and the others unless `quiet` on standard output.
void print_budgets(const std::vector<BudgetResult>& budgets, bool quiet) {
  for (const BudgetResult& b : budgets) {
    if (!b.kept)
      std::cerr << "nkisim: over budget: " << b.message << '\n';
    else if (!quiet)
      std::cout << "budget       " << b.budget.text << ": kept, " << b.message << '\n';
  }
}

// A row for each rank.
void print_ranks(const Outcome& out) {
  if (out.timed) {
    std::cout << "rank  latency\n";
    const auto row = [](const auto& rank, double us) {
      std::cout << std::left << std::setw(6) << rank << time_text(us) << '\n';
    };
    for (std::size_t r = 0; r < out.ranks.size(); ++r) row(r, out.ranks[r].latency_us);
    row("all", out.totals.at("latency_us").get<double>());
    std::cout << "bottleneck   " << bottleneck(out) << '\n';
  }
  std::uint64_t instructions = 0;
  std::set<int> simulated;
  for (const Outcome::Rank& r : out.ranks) {
    instructions += r.instructions;
    simulated.insert(r.timed_as);
  }
  std::cout << instructions << " instructions executed by " << out.ranks.size() << " ranks";
  if (out.timed && simulated.size() < out.ranks.size()) {
    std::cout << ", of which " << simulated.size() << " was simulated in time for all";
  }
  std::cout << '\n';
}

void print_alone(const Args& args, const Outcome& out, const RunArtifacts& artifacts) {
  if (!out.timed)
    std::cout << out.ranks.front().instructions << " instructions executed\n";
  else if (given(args, "summary-text"))
    artifacts.ranks.front().summary.print(std::cout);
  else
    print_brief(out);
  if (!out.confidence.is_null()) {
    std::cout << "trust        " << out.confidence["text"].get<std::string>() << '\n';
  }
  if (out.moved > 0) std::cout << "schedule     list: " << out.moved << " instructions moved\n";
}

// The accounting of one rank; null unless --explain asks for it.
const Accounting* accounting_of(const Args& args, const Outcome& out,
                                const RunArtifacts& artifacts) {
  if (!given(args, "explain") || !out.timed || out.ranks.size() > 1) return nullptr;
  return artifacts.accountings().front();
}

void print_json(const Args& args, const Outcome& out, const RunArtifacts& artifacts) {
  Json j = to_json(out);
  if (const Accounting* accounting = accounting_of(args, out, artifacts)) {
    j["verdict"] = verdict(*accounting, bottleneck(out), artifacts.changes);
    j["accounting"] = accounting_json(*accounting);
  }
  std::cout << j.dump(1, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace

Tolerance tolerance(const Args& args) {
  for (const char* name : {"rtol", "atol", "rel-l2"}) {
    if (!given(args, name)) continue;
    const double limit = args[name].as<double>();
    if (!std::isfinite(limit) || limit < 0) {
      usage(isa::Rule::option_value, "--" + std::string(name) + " is " + short_number(limit) +
                                         "; a number of at least 0 is required");
    }
  }
  Tolerance limit{.rtol = args["rtol"].as<double>(), .atol = args["atol"].as<double>()};
  if (given(args, "rel-l2")) limit.rel_l2 = args["rel-l2"].as<double>();
  return limit;
}

void print_failures(const Args& args, const Outcome& out) {
  print_outputs(args, out, true);
  print_budgets(out.budgets, true);
}

void write_junit(const Args& args, const Outcome& out) {
  std::vector<TestCase> cases;
  if (out.partial) cases.push_back({"run", false, over_early(out)});
  for (std::size_t r = 0; r < out.ranks.size(); ++r) {
    const std::string name = lead(out, r) + "output ";
    for (const std::string& tensor : out.ranks[r].not_compared) {
      cases.push_back({name + tensor, out.subset, lead(out, r) + not_compared(tensor)});
    }
    for (const Comparison& row : out.ranks[r].outputs) {
      cases.push_back({name + row.tensor, row.equal, lead(out, r) + describe(args, row)});
    }
  }
  for (const BudgetResult& b : out.budgets) {
    cases.push_back({"budget " + b.budget.text, b.kept, b.message});
  }
  if (cases.empty()) cases.push_back({"run", true, ""});
  const std::string xml = junit_xml("nkisim run " + text(args, "trace"), cases, out.seconds);
  AtomicFile file(text(args, "junit"));
  file.write(xml);
  file.commit();
}

void print_result(const Args& args, const Outcome& out, const RunArtifacts& artifacts) {
  if (given(args, "json")) {
    print_json(args, out, artifacts);
    print_interruption(out);
    print_failures(args, out);
    return;
  }
  const bool quiet = given(args, "quiet"), alone = out.ranks.size() == 1;
  const Accounting* accounting = accounting_of(args, out, artifacts);
  if (accounting != nullptr)
    print_explanation(std::cout, *accounting, bottleneck(out), artifacts.changes);
  print_interruption(out);
  for (std::size_t r = 0; !out.stop.is_null() && r < out.ranks.size(); ++r) {
    std::cout << stop_text(out.stop, r);
  }
  print_outputs(args, out, quiet);
  if (!quiet && alone) print_alone(args, out, artifacts);
  if (!quiet && !alone) print_ranks(out);
  print_budgets(out.budgets, quiet);
  if (!alone && out.timed && given(args, "explain")) {
    print_world(std::cout, artifacts.accountings(), artifacts.latencies());
  }
}

}  // namespace nkisim::cli
