// Prints where the time of a run went: causes of waits, critical path, what would help.

#include "src/report/explain.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <map>
#include <sstream>

#include "isa/base/stable_order.hpp"
#include "src/report/decimals.hpp"

namespace nkisim {
namespace {

using models::Fs;

constexpr std::size_t kChanges = 3;     // of the verdict
constexpr double kWorthSaying = 0.005;  // a gain below this is not worth a line
constexpr std::size_t kPathRows = 12;

double percent(Fs part, Fs all) {
  return all > 0 ? 100 * static_cast<double>(part) / static_cast<double>(all) : 0;
}

void print_charges(std::ostream& out, const Accounting& a, int core, const std::string& title,
                   const Charges& total) {
  std::vector<std::pair<Charge, Fs>> rows(total.begin(), total.end());
  isa::sort_stably(rows, [](const auto& x, const auto& y) { return x.second > y.second; });
  out << title << '\n';
  for (const auto& [charge, fs] : rows) {
    if (fs == 0) continue;
    out << "  " << std::setw(6) << fixed(percent(fs, a.end()), 2) << " %  " << std::setw(12)
        << fixed(models::to_ns(fs), 1) << " ns  " << a.describe(core, charge) << '\n';
  }
}

std::string where(const Accounting& a, const isa::Inst& inst) {
  const std::string place = a.program().kernel_place(inst);
  return place.empty() ? "trace line " + std::to_string(inst.loc.trace_line) : place;
}

// If the program has regions: the time of the critical path in each, in the order in which they
// come.
void print_regions(std::ostream& out, const Accounting& a, int core) {
  if (!a.program().has_regions()) return;
  std::vector<std::pair<std::string, Fs>> rows;
  std::map<std::string, std::size_t> row_of;
  std::string last = "(none)";  // an item without an instruction is with the one after it in time
  trace_back(a, core, [&](const PathItem& item) {
    if (item.inst != nullptr) last = item.inst->region == nullptr ? "(none)" : *item.inst->region;
    const auto [at, fresh] = row_of.try_emplace(last, rows.size());
    if (fresh) rows.emplace_back(last, 0);
    rows[at->second].second += item.to - item.from;
  });
  std::reverse(rows.begin(), rows.end());  // the path was followed from its end
  out << "regions of the critical path\n";
  for (const auto& [region, fs] : rows) {
    out << "  " << std::setw(6) << fixed(percent(fs, a.end()), 2) << " %  " << std::setw(12)
        << fixed(models::to_ns(fs), 1) << " ns  " << region << '\n';
  }
}

void print_path(std::ostream& out, const Accounting& a, int core) {
  std::vector<PathItem> path;  // the longest pieces, of equal ones the earlier, the best first
  std::size_t pieces = 0;
  const auto before = [](const PathItem& x, const PathItem& y) {
    const Fs x_time = x.to - x.from, y_time = y.to - y.from;
    return x_time != y_time ? x_time > y_time : x.from < y.from;
  };
  trace_back(a, core, [&](const PathItem& item) {
    ++pieces;
    if (path.size() == kPathRows && !before(item, path.back())) return;
    if (path.size() == kPathRows) path.pop_back();
    path.insert(std::upper_bound(path.begin(), path.end(), item, before), item);
  });
  out << "critical path, " << pieces << " pieces; the longest:\n";
  std::sort(path.begin(), path.end(),
            [](const PathItem& x, const PathItem& y) { return x.from < y.from; });
  const auto& queues = a.cores().at(static_cast<std::size_t>(core)).queues;
  for (const PathItem& item : path) {
    out << "  " << std::setw(12) << fixed(models::to_ns(item.from), 1) << " ns +" << std::left
        << std::setw(10) << fixed(models::to_ns(item.to - item.from), 1) << std::right << ' '
        << std::left << std::setw(12) << name(item.cause) << std::right << ' '
        << (item.where < queues.size() ? queues[item.where].name : "");
    if (item.inst != nullptr) {
      out << "  " << isa::spec(*item.inst).name << " #" << item.sequence << "  "
          << where(a, *item.inst);
    }
    out << '\n';
  }
}

}  // namespace

std::vector<std::string> verdict(const Accounting& a, const std::string& bottleneck,
                                 const std::vector<WhatIf>& changes) {
  std::vector<std::string> lines = {"Bottleneck: " + bottleneck + "."};
  if (a.partial()) {
    lines.push_back("PARTIAL: the run was interrupted after " +
                    fixed(models::to_ns(a.end()) / 1000, 3) +
                    " us of simulated time; all figures are of that part.");
  }
  for (std::size_t c = 0; c < a.cores().size(); ++c) {
    const std::vector<PathShare> list = path_shares(a, static_cast<int>(c));
    Fs all = 0;
    for (const PathShare& share : list) all += share.time;
    std::string line = "Until the last semaphore the run takes " +
                       fixed(models::to_ns(a.end()) / 1000, 3) + " us.";
    if (a.cores().size() > 1) line += " On core " + std::to_string(c) + " the";
    line += a.cores().size() > 1 ? " critical path is " : " Its critical path is ";
    for (std::size_t i = 0; i < std::min(list.size(), kChanges); ++i) {
      line +=
          (i == 0 ? "" : ", ") + fixed(percent(list[i].time, all), 0) + " % " + describe(list[i]);
    }
    lines.push_back(line + ".");
  }
  for (std::size_t i = 0; i < std::min(changes.size(), kChanges); ++i) {
    if (changes[i].gain < kWorthSaying) continue;
    lines.push_back("If " + changes[i].change + ": -" + fixed(100 * changes[i].gain, 1) + " % (" +
                    fixed(models::to_ns(changes[i].end) / 1000, 3) + " us).");
  }
  return lines;
}

void print_explanation(std::ostream& out, const Accounting& a, const std::string& bottleneck,
                       const std::vector<WhatIf>& changes) {
  for (std::size_t c = 0; c < a.cores().size(); ++c) {
    const Accounting::Core& core = a.cores()[c];
    const std::string prefix =
        a.cores().size() > 1 ? "core " + std::to_string(c) + " " : std::string();
    for (std::size_t e = 0; e < core.engines.size(); ++e) {
      if (core.engines.at(e).parts.empty()) continue;
      print_charges(out, a, static_cast<int>(c), prefix + core.queues.at(e).name + " Engine",
                    core.engines.at(e).total);
    }
    for (const Accounting::Queue& q : core.queues) {
      if (q.used()) print_charges(out, a, static_cast<int>(c), prefix + q.name, q.total);
    }
    print_path(out, a, static_cast<int>(c));
    print_regions(out, a, static_cast<int>(c));
  }
  out << "verdict\n";
  for (const std::string& line : verdict(a, bottleneck, changes)) out << "  " << line << '\n';
}

}  // namespace nkisim
