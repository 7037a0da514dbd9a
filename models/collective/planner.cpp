#include "models/collective/planner.hpp"

#include <algorithm>

namespace nkisim::models {
namespace {

bool gathers(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather;
}
bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
}

}  // namespace

// The largest row sum row sum of variable lengths: what one rank sends.
std::int64_t input_bytes(const CollectiveRequest& request) {
  if (request.lengths.empty()) return request.bytes;
  const bool same = request.kind == CollectiveKind::kAllGather;  // one block for everybody
  std::int64_t most = 0;
  for (const auto& row : request.lengths) {
    std::int64_t sent = 0;
    for (const std::int64_t bytes : row) sent = same ? std::max(sent, bytes) : sent + bytes;
    most = std::max(most, sent);
  }
  return most;
}

std::int64_t output_bytes(const CollectiveRequest& request) {
  const auto n = static_cast<std::int64_t>(request.ranks.size());
  const std::int64_t bytes = input_bytes(request);
  if (request.kind == CollectiveKind::kAllGather) return bytes * n;
  return request.kind == CollectiveKind::kReduceScatter ? bytes / n : bytes;
}

double chunk_bytes(const CollectiveRequest& request) {
  const auto bytes = static_cast<double>(input_bytes(request));
  return request.kind == CollectiveKind::kAllGather
             ? bytes
             : bytes / static_cast<double>(request.ranks.size());
}

std::vector<ServerLoad> times(const std::vector<ServerLoad>& loads, double factor) {
  std::vector<ServerLoad> list = loads;
  for (ServerLoad& l : list) l.bytes *= factor;
  return list;
}

void merge(std::vector<ServerLoad>& into, const std::vector<ServerLoad>& loads) {
  for (const ServerLoad& l : loads) {
    const auto known = std::find_if(into.begin(), into.end(),
                                    [&](const ServerLoad& i) { return i.server == l.server; });
    if (known == into.end()) {
      into.push_back(l);
    } else {
      known->bytes += l.bytes;
    }
  }
}

Algorithm CollectivePlanner::select(const CollectiveRequest& request) const {
  if (request.kind == CollectiveKind::kPermute) return Algorithm::kDirect;
  if (request.kind == CollectiveKind::kBarrier) return Algorithm::kNone;
  const GroupShape group(topology_, request.ranks);
  return select(request.kind, group, std::max(input_bytes(request), output_bytes(request)));
}

Algorithm CollectivePlanner::select(CollectiveKind kind, const GroupShape& group,
                                    std::int64_t bytes) const {
  const auto chips = static_cast<int>(group.chips.size());
  for (const SelectRule& r : config_.select) {
    if ((r.kinds >> static_cast<unsigned>(kind) & 1U) == 0) continue;
    if (chips < r.min_chips || (r.max_chips != 0 && chips > r.max_chips)) continue;
    if (group.instances < r.min_instances) continue;
    if (r.max_instances != 0 && group.instances > r.max_instances) continue;
    if (r.whole_chips && !group.whole_chips) continue;
    if (r.max_bytes != 0 && bytes > r.max_bytes) continue;
    return r.algorithm;
  }
  return Algorithm::kRing;
}

const CollectivePlan& CollectivePlanner::plan(const CollectiveRequest& request,
                                              Algorithm algorithm) {
  const bool hbm = request.memory == isa::Space::kHbm;
  const GroupShape group(topology_, request.ranks);
  std::map<int, std::vector<int>> instances;
  Algorithm within = algorithm;
  if (algorithm == Algorithm::kHierarchical) {
    for (const int rank : group.ranks) instances[topology_.place(rank).instance].push_back(rank);
    const GroupShape part(topology_, instances.begin()->second);
    within = select(request.kind, part, std::max(input_bytes(request), output_bytes(request)));
  }
  std::vector<int> key = {static_cast<int>(request.kind), static_cast<int>(algorithm),
                          static_cast<int>(within), hbm ? 1 : 0};
  key.insert(key.end(), group.ranks.begin(), group.ranks.end());
  std::unique_ptr<CollectivePlan>& known = plans_[key];
  if (known) return *known;
  known = std::make_unique<CollectivePlan>();
  if (request.kind == CollectiveKind::kAllToAll) {
    known->add({exchange_phase(topology_, group, hbm)});
  } else if (algorithm == Algorithm::kHierarchical) {
    add_hierarchical(request.kind, instances, within, hbm, *known);
  } else {
    if (reduces(request.kind)) known->add(reduce_phases(topology_, group, algorithm, hbm));
    if (gathers(request.kind)) known->add(gather_phases(topology_, group, algorithm, hbm));
  }
  return *known;
}

// All-gather: ranks of the same place in every instance exchange, then each instance within. A
// reduce-scatter is the reverse, an all-reduce both.
void CollectivePlanner::add_hierarchical(CollectiveKind kind,
                                         const std::map<int, std::vector<int>>& instances,
                                         Algorithm within, bool hbm, CollectivePlan& out) const {
  const auto count = static_cast<double>(instances.size());
  std::vector<std::vector<int>> parts;
  for (const auto& [instance, ranks] : instances) parts.push_back(ranks);
  LoadSum network(topology_);
  const bool crosses_network =
      topology_.place(parts.front().front()).server != topology_.place(parts.back().front()).server;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::vector<int>& to = parts[(i + 1) % parts.size()];
    for (std::size_t k = 0; k < parts[i].size(); ++k) {
      network.send(topology_.place(parts[i][k]).chip, topology_.place(to[k % to.size()]).chip,
                   count - 1);
      if (hbm) network.add(topology_.stack(parts[i][k]), 2 * (count - 1));
    }
  }
  const auto inner = [&](bool reduce) {  // all instances at once
    std::vector<PlanPhase> sum;
    for (const std::vector<int>& ranks : parts) {
      const GroupShape part(topology_, ranks);
      const std::vector<PlanPhase> phases = reduce ? reduce_phases(topology_, part, within, hbm)
                                                   : gather_phases(topology_, part, within, hbm);
      sum.resize(std::max(sum.size(), phases.size()));
      for (std::size_t i = 0; i < phases.size(); ++i) {
        sum[i].algorithm = phases[i].algorithm;
        sum[i].reduces = reduce;
        sum[i].steps = std::max(sum[i].steps, phases[i].steps);
        merge(sum[i].loads, times(phases[i].loads, count));
      }
    }
    return sum;
  };
  const int steps = static_cast<int>(parts.size()) - 1;
  PlanPhase between{.algorithm = Algorithm::kHierarchical, .loads = network.loads()};
  (crosses_network ? between.network_steps : between.steps) = steps;
  if (reduces(kind)) {
    out.add(inner(true));
    between.reduces = true;
    out.add({between});
  }
  if (gathers(kind)) {
    between.reduces = false;
    out.add({between});
    out.add(inner(false));
  }
}

}  // namespace nkisim::models
