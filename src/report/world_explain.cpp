// Explains the time of a run of several ranks: per rank, and along the path that crosses ranks.
#include <algorithm>
#include <iomanip>
#include <map>
#include <nlohmann/json.hpp>

#include "isa/base/stable_order.hpp"
#include "src/report/explain.hpp"

namespace nkisim {
namespace {

using models::Fs;

constexpr std::size_t kWorldPathRows = 16;

double us(Fs time) { return models::to_ns(time) / 1000; }

// The charge of a rank's collective operations, from its first core: all its cores trigger them.
Fs charged(const Accounting& rank, Cause cause) {
  Fs sum = 0;
  if (rank.cores().empty()) return sum;
  for (const Accounting::Queue& q : rank.cores().front().queues) {
    if (q.collectives.empty()) continue;
    for (const auto& [charge, time] : q.total) {
      if (charge.first == cause) sum += time;
    }
  }
  return sum;
}

std::string where(const PathItem& item, const Accounting& rank) {
  const auto& queues = rank.cores().at(static_cast<std::size_t>(item.core)).queues;
  std::string text = item.where < queues.size() ? queues[item.where].name : "";
  if (item.inst == nullptr) return text;
  const std::string place = rank.program().shared_place(*item.inst);
  text += "  " + std::string(isa::spec(*item.inst).name) + " #" + std::to_string(item.sequence);
  return text + "  " +
         (place.empty() ? "trace line " + std::to_string(item.inst->loc.trace_line) : place);
}

void print_ranks(std::ostream& out, std::span<const Accounting* const> ranks,
                 std::span<const Fs> latencies) {
  out << "rank    latency, us   in collectives   waiting for ranks\n";
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r] == nullptr || ranks[r]->cores().empty()) continue;  // as another one
    const double end = std::max(1e-9, us(ranks[r]->end()));
    const auto share = [&](Cause cause) { return 100 * us(charged(*ranks[r], cause)) / end; };
    out << std::left << std::setw(6) << r << std::right << std::setw(13) << us(latencies[r])
        << std::setprecision(1) << std::setw(15) << share(Cause::kCollective) << " %"
        << std::setw(18) << share(Cause::kWaitRank) << " %\n"
        << std::setprecision(3);
  }
}

}  // namespace

void print_world(std::ostream& out, std::span<const Accounting* const> ranks,
                 std::span<const Fs> latencies) {
  out << std::fixed << std::setprecision(3);
  print_ranks(out, ranks, latencies);
  std::vector<PathItem> path = critical_path(ranks);
  if (path.empty()) return;
  const Fs end = path.back().to;
  std::map<int, Fs> by_rank;
  Fs collective = 0;
  std::size_t crossings = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    by_rank[path[i].rank] += path[i].to - path[i].from;
    if (path[i].cause == Cause::kCollective) collective += path[i].to - path[i].from;
    if (i > 0 && path[i].rank != path[i - 1].rank) ++crossings;
  }
  out << "critical path of the world, " << us(end) << " us: " << crossings
      << " times to another rank, " << std::setprecision(0)
      << 100 * us(collective) / std::max(1e-9, us(end)) << " % in collectives; on rank";
  for (const auto& [rank, time] : by_rank) {
    out << ' ' << rank << ": " << 100 * us(time) / std::max(1e-9, us(end)) << " %";
  }
  out << std::setprecision(3) << "\nthe longest pieces:\n";
  isa::sort_stably(
      path, [](const PathItem& a, const PathItem& b) { return a.to - a.from > b.to - b.from; });
  path.resize(std::min(path.size(), kWorldPathRows));
  std::sort(path.begin(), path.end(),
            [](const PathItem& a, const PathItem& b) { return a.from < b.from; });
  for (const PathItem& item : path) {
    out << "  rank " << std::left << std::setw(4) << item.rank << std::right << std::setw(12)
        << us(item.from) << " us +" << std::left << std::setw(10) << us(item.to - item.from) << ' '
        << std::setw(14) << name(item.cause) << std::right
        << where(item, *ranks[static_cast<std::size_t>(item.rank)]) << '\n';
  }
}

nlohmann::ordered_json world_facts(std::span<const Accounting* const> ranks,
                                   const std::vector<int>& timed_as) {
  return {{"ranks", timed_as.size()}, {"timed_as", timed_as}, {"path", world_path_json(ranks)}};
}

}  // namespace nkisim
