// Chooses the algorithm of a collective operation by the config's rules, and makes its plan.
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

Fs latency_of(const PlanPhase& phase, const CollectiveConfig& config) {
  const AlgorithmConfig& a = config.algorithms.at(static_cast<std::size_t>(phase.algorithm));
  return phase.steps * a.step + phase.peers * a.peer + phase.network_steps * config.network_step;
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

namespace {

// The same operation of so many bytes, as input_bytes() and output_bytes() count them.
CollectiveRequest resized(const CollectiveRequest& request, std::int64_t bytes) {
  CollectiveRequest other = request;
  other.lengths.clear();
  const bool gathers = request.kind == CollectiveKind::kAllGather;
  other.bytes = gathers ? bytes / static_cast<std::int64_t>(request.ranks.size()) : bytes;
  return other;
}

std::int64_t larger_bytes(const CollectiveRequest& request) {
  return std::max(input_bytes(request), output_bytes(request));
}

using Instances = std::vector<std::vector<int>>;

// Ranks of each instance, by server.
std::vector<Instances> by_server(const Topology& topology, const std::vector<int>& ranks) {
  std::map<int, std::map<int, std::vector<int>>> found;
  for (const int rank : ranks) {
    const Place p = topology.place(rank);
    found[p.server][p.instance].push_back(rank);
  }
  std::vector<Instances> servers;
  for (auto& [server, instances] : found) {
    Instances& list = servers.emplace_back();
    for (auto& [instance, own] : instances) list.push_back(std::move(own));
  }
  return servers;
}

// Each rank of an instance sends `bytes` to the rank of its place in the next one.
void send_on(const Topology& topology, const std::vector<int>& from, const std::vector<int>& to,
             double bytes, bool hbm, LoadSum& sum) {
  for (std::size_t k = 0; k < from.size(); ++k) {
    sum.send(topology.place(from[k]).chip, topology.place(to[k % to.size()]).chip, bytes);
    if (hbm) sum.add(topology.stack(from[k]), 2 * bytes);
  }
}

}  // namespace

SelectRule CollectivePlanner::rule(CollectiveKind kind, const GroupShape& group,
                                   std::int64_t bytes) const {
  const auto chips = static_cast<int>(group.chips.size());
  for (const SelectRule& r : config_.select) {
    if ((r.kinds >> static_cast<unsigned>(kind) & 1U) == 0) continue;
    if (chips < r.min_chips || (r.max_chips != 0 && chips > r.max_chips)) continue;
    if (group.instances < r.min_instances) continue;
    if (r.max_instances != 0 && group.instances > r.max_instances) continue;
    if (r.whole_chips && !group.whole_chips) continue;
    if (r.max_bytes != 0 && bytes > r.max_bytes) continue;
    return r;
  }
  SelectRule none;
  none.algorithm = Algorithm::kRing;
  return none;
}

// The quicker of a row's two algorithms. Reports call it `algorithm`.
Algorithm CollectivePlanner::quicker(const CollectiveRequest& request, Algorithm algorithm,
                                     const SelectRule& row) {
  if (row.or_else == Algorithm::kNone) return row.algorithm;
  const bool named = algorithm == Algorithm::kNone;
  const auto choice = [&](Algorithm a) { return Choice{named ? a : algorithm, a, 0}; };
  const Fs first = alone(request, choice(row.algorithm));
  return alone(request, choice(row.or_else)) < first ? row.or_else : row.algorithm;
}

Choice CollectivePlanner::choose(const CollectiveRequest& request) {
  if (request.kind == CollectiveKind::kPermute) return {Algorithm::kDirect, Algorithm::kDirect};
  if (request.kind == CollectiveKind::kBarrier) return {Algorithm::kNone, Algorithm::kNone};
  const GroupShape group(topology_, request.ranks);
  const SelectRule row = rule(request.kind, group, larger_bytes(request));
  if (request.kind == CollectiveKind::kAllToAll) {
    return {row.algorithm, quicker(request, row.algorithm, row)};
  }
  // A group on several instances takes the row of one instance for the steps within each.
  const bool several = row.algorithm == Algorithm::kHierarchical;
  SelectRule within = row;
  if (several) {
    const GroupShape part(topology_, by_server(topology_, group.ranks).front().front());
    within = rule(request.kind, part, larger_bytes(request));
    if (within.algorithm == Algorithm::kHierarchical) within.algorithm = Algorithm::kRing;
  }
  const auto named = [&](Algorithm a) { return Choice{several ? row.algorithm : a, a}; };
  Choice choice = named(quicker(request, several ? row.algorithm : Algorithm::kNone, within));
  if (within.after == Algorithm::kNone) return choice;
  const Fs before = alone(resized(request, within.above_bytes), named(within.after));
  choice.waiting = std::max<Fs>(0, before - alone(request, choice));
  return choice;
}

// The time of an operation's phases if nothing else needs the servers.
Fs CollectivePlanner::alone(const CollectiveRequest& request, const Choice& choice) {
  const double chunk = chunk_bytes(request);
  Fs sum = config_.algorithms.at(static_cast<std::size_t>(choice.algorithm)).base + choice.waiting;
  for (const PlanPhase& p : plan(request, choice).phases) {
    const AlgorithmConfig& a = config_.algorithms.at(static_cast<std::size_t>(p.algorithm));
    double longest = 0;
    for (const ServerLoad& l : p.loads) {
      longest = std::max(longest, l.bytes * chunk / rates_.at(static_cast<std::size_t>(l.server)));
    }
    sum +=
        latency_of(p, config_) + from_ns(longest / (p.reduces ? a.reduce_share : a.gather_share));
  }
  return sum;
}

const CollectivePlan& CollectivePlanner::plan(const CollectiveRequest& request,
                                              const Choice& choice) {
  const bool hbm = request.memory == isa::Space::kHbm;
  const GroupShape group(topology_, request.ranks);
  std::vector<int> key = {static_cast<int>(request.kind), static_cast<int>(choice.algorithm),
                          static_cast<int>(choice.within), hbm ? 1 : 0};
  key.insert(key.end(), group.ranks.begin(), group.ranks.end());
  std::unique_ptr<CollectivePlan>& known = plans_[key];
  if (known) return *known;
  known = std::make_unique<CollectivePlan>();
  if (request.kind == CollectiveKind::kAllToAll) {
    known->add({exchange_phase(topology_, group, choice.within, hbm)});
  } else if (choice.algorithm == Algorithm::kHierarchical) {
    add_hierarchical(request.kind, by_server(topology_, group.ranks), choice.within, hbm, *known);
  } else {
    if (reduces(request.kind)) {
      known->add(reduce_phases(topology_, group, choice.algorithm, hbm));
    }
    if (gathers(request.kind)) {
      known->add(gather_phases(topology_, group, choice.algorithm, hbm));
    }
  }
  return *known;
}

// All-gather: ranks of the same place in every server exchange, then those of the instances of a
// server, then each instance within. A reduce-scatter is the reverse, an all-reduce both.
void CollectivePlanner::add_hierarchical(CollectiveKind kind, const std::vector<Instances>& servers,
                                         Algorithm within, bool hbm, CollectivePlan& out) const {
  const auto server_count = static_cast<double>(servers.size());
  std::size_t most = 1;  // instances of a server
  LoadSum network(topology_), links(topology_);
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const Instances& own = servers[s];
    const Instances& next = servers[(s + 1) % servers.size()];
    const auto count = static_cast<double>(own.size());
    most = std::max(most, own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      send_on(topology_, own[i], next[i % next.size()], server_count - 1, hbm, network);
      send_on(topology_, own[i], own[(i + 1) % own.size()], (count - 1) * server_count, hbm, links);
    }
  }
  const auto inner = [&](bool reduce) {  // all instances at once
    std::vector<PlanPhase> sum;
    for (const Instances& own : servers) {
      for (const std::vector<int>& ranks : own) {
        const GroupShape part(topology_, ranks);
        const std::vector<PlanPhase> phases = reduce ? reduce_phases(topology_, part, within, hbm)
                                                     : gather_phases(topology_, part, within, hbm);
        sum.resize(std::max(sum.size(), phases.size()));
        for (std::size_t i = 0; i < phases.size(); ++i) {
          sum[i].algorithm = phases[i].algorithm;
          sum[i].reduces = reduce;
          sum[i].steps = std::max(sum[i].steps, phases[i].steps);
          sum[i].peers = std::max(sum[i].peers, phases[i].peers);
          merge(sum[i].loads,
                times(phases[i].loads, server_count * static_cast<double>(own.size())));
        }
      }
    }
    return sum;
  };
  std::vector<PlanPhase> between;  // from the outermost level
  if (servers.size() > 1) {
    between.push_back({.algorithm = Algorithm::kHierarchical,
                       .network_steps = static_cast<int>(servers.size()) - 1,
                       .loads = network.loads()});
  }
  if (most > 1) {
    between.push_back({.algorithm = Algorithm::kHierarchical,
                       .steps = static_cast<int>(most) - 1,
                       .loads = links.loads()});
  }
  if (reduces(kind)) {
    out.add(inner(true));
    for (auto level = between.rbegin(); level != between.rend(); ++level) {
      PlanPhase phase = *level;
      phase.reduces = true;
      out.add({phase});
    }
  }
  if (gathers(kind)) {
    out.add(between);
    out.add(inner(false));
  }
}

}  // namespace nkisim::models
