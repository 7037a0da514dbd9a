#include "models/collective/collective.hpp"

#include <algorithm>

#include "isa/error.hpp"
#include "models/collective/plan.hpp"

namespace nkisim::models {
namespace {

/// The largest row sum of variable lengths: what one rank sends.
std::int64_t bytes_of(const CollectiveRequest& request) {
  if (request.lengths.empty()) return request.bytes;
  std::int64_t most = 0;
  for (const auto& row : request.lengths) {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : row) sum += bytes;
    most = std::max(most, sum);
  }
  return most;
}

std::int64_t output_bytes(const CollectiveRequest& request) {
  const auto n = static_cast<std::int64_t>(request.ranks.size());
  const std::int64_t bytes = bytes_of(request);
  if (request.kind == CollectiveKind::kAllGather) return bytes * n;
  return request.kind == CollectiveKind::kReduceScatter ? bytes / n : bytes;
}

// Of what the plans count in.
double chunk_bytes(const CollectiveRequest& request) {
  const auto bytes = static_cast<double>(bytes_of(request));
  return request.kind == CollectiveKind::kAllGather
             ? bytes
             : bytes / static_cast<double>(request.ranks.size());
}

bool gathers(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kAllGather;
}
bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter;
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

void add_phase(RankTiming& rank, CollectivePhase phase, Fs start, Fs end) {
  if (end > start) rank.phases.push_back({phase, start, end});
}

void check(const CollectiveRequest& request, int ranks) {
  if (request.ranks.empty() || request.triggered.size() != request.ranks.size()) {
    isa::fail("collective", std::to_string(request.triggered.size()) + " trigger times",
              "one for each of its " + std::to_string(request.ranks.size()) + " ranks");
  }
  for (const int rank : request.ranks) {
    if (rank >= 0 && rank < ranks) continue;
    isa::fail("collective", "rank " + std::to_string(rank),
              "a rank of the world of " + std::to_string(ranks));
  }
  for (const auto& [source, target] : request.pairs) {
    const auto n = static_cast<int>(request.ranks.size());
    if (source >= 0 && source < n && target >= 0 && target < n) continue;
    isa::fail("collective", "a pair outside the group", "positions below " + std::to_string(n));
  }
}

}  // namespace

struct Collectives::Plan {
  std::vector<PlanPhase> phases;  // one after the other
  void add(const std::vector<PlanPhase>& more) {
    phases.insert(phases.end(), more.begin(), more.end());
  }
};

Collectives::Collectives(const Config& config, int lnc, int ranks)
    : config_(config),
      topology_(config.topology, lnc, ranks),
      servers_(
          topology_.rates(config.hbm.bytes_per_ns, config.dma.engines * config.dma.bytes_per_ns)) {}

Collectives::~Collectives() = default;

Algorithm Collectives::select(const CollectiveRequest& request) const {
  if (request.kind == CollectiveKind::kPermute) return Algorithm::kDirect;
  if (request.kind == CollectiveKind::kBarrier) return Algorithm::kNone;
  const GroupShape group(topology_, request.ranks);
  return select(request.kind, group, std::max(bytes_of(request), output_bytes(request)));
}

Algorithm Collectives::select(CollectiveKind kind, const GroupShape& group,
                              std::int64_t bytes) const {
  const auto chips = static_cast<int>(group.chips.size());
  for (const SelectRule& r : config_.collectives.select) {
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

const Collectives::Plan& Collectives::plan(const CollectiveRequest& request,
                                           Algorithm algorithm) const {
  const bool hbm = request.memory == isa::Space::kHbm;
  const GroupShape group(topology_, request.ranks);
  std::map<int, std::vector<int>> instances;
  Algorithm within = algorithm;
  if (algorithm == Algorithm::kHierarchical) {
    for (const int rank : group.ranks) instances[topology_.place(rank).instance].push_back(rank);
    const GroupShape part(topology_, instances.begin()->second);
    within = select(request.kind, part, std::max(bytes_of(request), output_bytes(request)));
  }
  std::vector<int> key = {static_cast<int>(request.kind), static_cast<int>(algorithm),
                          static_cast<int>(within), hbm ? 1 : 0};
  key.insert(key.end(), group.ranks.begin(), group.ranks.end());
  std::unique_ptr<Plan>& known = plans_[key];
  if (known) return *known;
  known = std::make_unique<Plan>();
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
void Collectives::add_hierarchical(CollectiveKind kind,
                                   const std::map<int, std::vector<int>>& instances,
                                   Algorithm within, bool hbm, Plan& out) const {
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

CollectiveTiming Collectives::run(const CollectiveRequest& request) {
  CollectiveTiming t = timing(request, servers_, [&](int rank) {
    const auto known = stream_free_.find({rank, request.stream});
    return known == stream_free_.end() ? Fs{0} : known->second;
  });
  for (std::size_t i = 0; i < t.ranks.size(); ++i) {
    stream_free_[{request.ranks[i], request.stream}] = t.ranks[i].end;
  }
  return t;
}

CollectiveTiming Collectives::alone(const CollectiveRequest& request) const {
  Servers servers(
      topology_.rates(config_.hbm.bytes_per_ns, config_.dma.engines * config_.dma.bytes_per_ns));
  return timing(request, servers, [](int /*rank*/) { return Fs{0}; });
}

CollectiveTiming Collectives::timing(const CollectiveRequest& request, Servers& servers,
                                     const std::function<Fs(int)>& stream_free) const {
  check(request, topology_.ranks());
  CollectiveTiming t{.algorithm = select(request),
                     .input_bytes = bytes_of(request),
                     .output_bytes = output_bytes(request)};
  t.ranks.resize(request.ranks.size());
  for (std::size_t i = 0; i < t.ranks.size(); ++i) {
    RankTiming& r = t.ranks[i];
    r.triggered = request.triggered[i];
    r.start =
        std::max(r.triggered + config_.collectives.trigger_delay, stream_free(request.ranks[i]));
  }
  if (request.kind == CollectiveKind::kPermute) {
    time_permute(request, servers, t);
  } else {
    time_group(request, servers, t);
  }
  return t;
}

// Nobody can finish before everybody has come.
void Collectives::time_group(const CollectiveRequest& request, Servers& servers,
                             CollectiveTiming& t) const {
  std::size_t last = 0;
  for (std::size_t i = 1; i < t.ranks.size(); ++i) {
    if (t.ranks[i].start > t.ranks[last].start) last = i;
  }
  const Fs ready = t.ranks[last].start;
  const CollectiveConfig& c = config_.collectives;
  std::vector<PhaseTime> common;
  Fs now = ready;
  const auto go = [&](CollectivePhase phase, Fs end) {
    if (end > now) common.push_back({phase, now, end});
    now = end;
  };
  if (request.kind == CollectiveKind::kBarrier) {
    go(CollectivePhase::kStep, now + c.barrier);
  } else {
    go(CollectivePhase::kHandshake, now + c.handshake);
    const double chunk = chunk_bytes(request);
    Fs base = c.algorithms.at(static_cast<std::size_t>(t.algorithm)).base;
    for (const PlanPhase& p : plan(request, t.algorithm).phases) {
      const AlgorithmConfig& a = c.algorithms.at(static_cast<std::size_t>(p.algorithm));
      go(CollectivePhase::kStep, now + base + p.steps * a.step + p.network_steps * c.network_step);
      base = 0;
      const std::vector<ServerLoad> loads = times(p.loads, chunk);
      const Fs least = servers.alone(loads, p.reduces ? a.reduce_share : a.gather_share);
      go(CollectivePhase::kData, servers.move(now, least, loads));
      t.steps += p.steps + p.network_steps;
      merge(t.loads, loads);
    }
  }
  for (std::size_t i = 0; i < t.ranks.size(); ++i) {
    RankTiming& r = t.ranks[i];
    r.ready = ready;
    r.end = now;
    if (r.start < ready) r.waited_for = request.ranks[last];
    add_phase(r, CollectivePhase::kWaiting, r.start, ready);
    r.phases.insert(r.phases.end(), common.begin(), common.end());
  }
}

// A transfer needs its two ranks; a rank has finished when its transfers have.
void Collectives::time_permute(const CollectiveRequest& request, Servers& servers,
                               CollectiveTiming& t) const {
  const CollectiveConfig& c = config_.collectives;
  const AlgorithmConfig& a = c.algorithms.at(static_cast<std::size_t>(Algorithm::kDirect));
  const bool hbm = request.memory == isa::Space::kHbm;
  for (RankTiming& r : t.ranks) r.ready = r.end = r.start;
  t.steps = 1;
  std::vector<std::pair<int, int>> pairs = request.pairs;
  const auto both = [&](const std::pair<int, int>& p) {
    return std::max(t.ranks[static_cast<std::size_t>(p.first)].start,
                    t.ranks[static_cast<std::size_t>(p.second)].start);
  };
  std::stable_sort(pairs.begin(), pairs.end(),
                   [&](const auto& x, const auto& y) { return both(x) < both(y); });
  for (const auto& pair : pairs) {
    const int source = request.ranks[static_cast<std::size_t>(pair.first)];
    const int target = request.ranks[static_cast<std::size_t>(pair.second)];
    const Place from = topology_.place(source), to = topology_.place(target);
    const bool across = from.chip != to.chip || from.die != to.die;
    const auto bytes = static_cast<double>(bytes_of(request));
    LoadSum sum(topology_);
    sum.send(from.chip, to.chip, bytes);
    if (hbm) sum.add(topology_.stack(source), bytes);
    if (hbm) sum.add(topology_.stack(target), bytes);
    sum.add(topology_.engines(source), bytes);
    const std::vector<ServerLoad> loads = sum.loads();
    const double pair_rate = across ? c.pair_across_dies_bytes_per_ns : c.pair_bytes_per_ns;
    const Fs least = std::max(servers.alone(loads, a.gather_share), from_ns(bytes / pair_rate));
    const Fs step = from.server != to.server ? c.network_step : a.step;
    const Fs begin = both(pair) + c.handshake + a.base + step + (across ? c.across_dies : 0);
    const Fs end = servers.move(begin, least, loads);
    merge(t.loads, loads);
    for (const int at : {pair.first, pair.second}) {
      RankTiming& r = t.ranks[static_cast<std::size_t>(at)];
      r.ready = std::max(r.ready, both(pair));
      if (r.start < both(pair)) r.waited_for = at == pair.first ? target : source;
      r.end = std::max(r.end, end);
    }
  }
  for (RankTiming& r : t.ranks) {
    const Fs hand = std::min(r.end, r.ready + c.handshake);
    add_phase(r, CollectivePhase::kWaiting, r.start, r.ready);
    add_phase(r, CollectivePhase::kHandshake, r.ready, hand);
    add_phase(r, CollectivePhase::kData, hand, r.end);
  }
}

}  // namespace nkisim::models
