// Computes the steps and bytes of each collective algorithm for one group of ranks.
#include "models/collective/plan.hpp"

#include <algorithm>
#include <bit>
#include <set>

namespace nkisim::models {
namespace {

// Traffic of a rank per byte of a chunk: bytes that cross the interface of its HBM stack, and bytes
// that its DMA engines move.
struct Touches {
  double hbm = 0, moved = 0;
};

int ranks_of(const GroupShape& group) { return static_cast<int>(group.ranks.size()); }
int chips_of(const GroupShape& group) { return static_cast<int>(group.chips.size()); }

int ring_steps_of(const GroupShape& group, Algorithm algorithm) {
  const int n = ranks_of(group);
  // Only one of the two ranks of a chip is in the cycle.
  return algorithm == Algorithm::kKangaRing ? std::max(1, n / 2 - 1) : n - 1;
}

int steps_of(const GroupShape& group, Algorithm algorithm) {
  const int chips = chips_of(group);
  switch (algorithm) {
    case Algorithm::kMesh:
      return (chips > 1 ? 1 : 0) + (ranks_of(group) > chips ? 1 : 0);
    case Algorithm::kRdh:
      return static_cast<int>(std::bit_width(static_cast<unsigned>(chips - 1)));
    case Algorithm::kKangaRing:
    case Algorithm::kRing:
      return ring_steps_of(group, algorithm);
    default:
      return 1;
  }
}

// A gather is 1 read and 1 write per chunk received, a reduction also reads what it adds. KangaRing
// serves two ranks with one read and two writes, or three reads and one write.
Touches gather_touches(const GroupShape& group, Algorithm algorithm) {
  const double n = ranks_of(group), chips = chips_of(group);
  switch (algorithm) {
    case Algorithm::kKangaRing:
      return {1.5 * (n - 1), n - 1};
    case Algorithm::kRdh:
      return {2 * (chips - 1), chips - 1};
    case Algorithm::kOnChip:
      return {2 * (n - chips), n - chips};
    default:
      return {2 * (n - 1), n - 1};
  }
}

Touches reduce_touches(const GroupShape& group, Algorithm algorithm) {
  const double n = ranks_of(group), chips = chips_of(group);
  switch (algorithm) {
    case Algorithm::kRing:
      return {3 * (n - 1), 2 * (n - 1)};
    case Algorithm::kKangaRing:
      return {2 * (n - 1), 1.5 * (n - 1)};
    // Halving reads and sends a sum, and adds the one that came.
    case Algorithm::kRdh:
      return {3 * (chips - 1), 2 * (chips - 1)};
    // Every rank's chunks are read, and a sum for each chip written.
    case Algorithm::kOnChip:
      return {n + chips, n};
    // The same, then the sums of all chips are sent and added at once.
    default:
      return {n + 2 * (chips - 1) + 1, n + chips};
  }
}

void add_touches(const Topology& topology, const GroupShape& group, const Touches& t, bool hbm,
                 LoadSum& sum) {
  for (const int rank : group.ranks) {
    if (hbm) sum.add(topology.stack(rank), t.hbm);
    sum.add(topology.engines(rank), t.moved);
  }
}

// Every chip sends what its ranks have (or sums for the other's ranks) straight to every other.
void add_mesh(const GroupShape& group, LoadSum& sum) {
  for (std::size_t a = 0; a < group.chips.size(); ++a) {
    for (std::size_t b = 0; b < group.chips.size(); ++b) {
      if (a != b) sum.send(group.chips[a], group.chips[b], group.on_chip[a]);
    }
  }
}

// Through every boundary between chips of the cycle pass all chunks but one. All chips of a torus
// have cycles over disjoint links, that use all of them; else two cycles go both ways round.
void add_ring(const Topology& topology, const GroupShape& group, LoadSum& sum) {
  const std::size_t n = group.chips.size();
  if (n < 2) return;
  const double bytes = ranks_of(group) - 1;
  if (group.whole_instances && group.instances == 1) {
    for (const int chip : group.chips) {
      const std::vector<ServerId> links = topology.links(chip);
      for (const ServerId link : links) sum.add(link, bytes / static_cast<double>(links.size()));
    }
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const int a = group.chips[i], b = group.chips[(i + 1) % n];
    sum.send(a, b, bytes / 2);
    sum.send(b, a, bytes / 2);
  }
}

// Doubling: with the neighbour of each axis, one after another, ranks of a chip in different
// orders, so that all links are in use.
void add_doubling(const GroupShape& group, LoadSum& sum) {
  const std::size_t n = group.chips.size();
  for (std::size_t axis = 1; axis < n; axis *= 2) {
    for (std::size_t i = 0; i < n; ++i) {
      if ((i ^ axis) >= n) continue;
      sum.send(group.chips[i], group.chips[i ^ axis], static_cast<double>(axis) * group.on_chip[i]);
    }
  }
}

// Links of each of the group's chips to others of it: empty unless all have as many and reach each
// other over them, as those of a rectangle of a torus.
std::vector<std::vector<ServerId>> links_within(const Topology& topology, const GroupShape& group) {
  const std::size_t n = group.chips.size();
  std::vector<std::vector<ServerId>> links(n);
  std::vector<std::size_t> reached = {0};
  std::vector<bool> seen(n);
  seen[0] = true;
  for (std::size_t next = 0; next < reached.size(); ++next) {
    const std::size_t a = reached[next];
    for (std::size_t b = 0; b < n; ++b) {
      const std::vector<ServerId> way = topology.route(group.chips[a], group.chips[b]);
      if (way.size() != 1) continue;
      links[a].push_back(way.front());
      if (!seen[b]) reached.push_back(b);
      seen[b] = true;
    }
  }
  const bool alike = std::all_of(links.begin(), links.end(), [&](const auto& own) {
    return !own.empty() && own.size() == links.front().size();
  });
  if (reached.size() != n || !alike) links.clear();
  return links;
}

// Doubling in an order of its own for each rank of a chip, so that all links are in use alike.
bool add_balanced_doubling(const Topology& topology, const GroupShape& group, LoadSum& sum) {
  if (!std::has_single_bit(group.chips.size())) return false;
  const std::vector<std::vector<ServerId>> links = links_within(topology, group);
  for (std::size_t i = 0; i < links.size(); ++i) {
    const double bytes = ranks_of(group) - group.on_chip[i];
    for (const ServerId link : links[i]) {
      sum.add(link, bytes / static_cast<double>(links[i].size()));
    }
  }
  return !links.empty();
}

void add_links(const Topology& topology, const GroupShape& group, Algorithm algorithm,
               LoadSum& sum) {
  const bool balanced = group.whole_instances && group.instances == 1;
  if (algorithm == Algorithm::kOnChip) return;
  if (algorithm == Algorithm::kMesh) {
    add_mesh(group, sum);
  } else if (algorithm == Algorithm::kRdh && !balanced) {
    if (!add_balanced_doubling(topology, group, sum)) add_doubling(group, sum);
  } else {
    add_ring(topology, group, sum);
  }
}

PlanPhase phase(const Topology& topology, const GroupShape& group, Algorithm algorithm,
                const Touches& touches, bool hbm) {
  LoadSum sum(topology);
  add_touches(topology, group, touches, hbm, sum);
  add_links(topology, group, algorithm, sum);
  return {.algorithm = algorithm,
          .steps = steps_of(group, algorithm),
          .peers = algorithm == Algorithm::kMesh ? chips_of(group) - 1 : 0,
          .loads = sum.loads()};
}

}  // namespace

void LoadSum::send(int from_chip, int to_chip, double bytes) {
  for (const ServerId s : topology_.route(from_chip, to_chip)) add(s, bytes);
}

std::vector<ServerLoad> LoadSum::loads() const {
  std::vector<ServerLoad> list;
  for (std::size_t s = 0; s < bytes_.size(); ++s) {
    if (bytes_[s] > 0) list.push_back({static_cast<ServerId>(s), bytes_[s]});
  }
  return list;
}

GroupShape::GroupShape(const Topology& topology, std::span<const int> group)
    : ranks(topology.ring(group)) {
  std::set<int> all_instances, all_servers;
  for (const int rank : ranks) {
    const Place p = topology.place(rank);
    all_instances.insert(p.instance);
    all_servers.insert(p.server);
    if (chips.empty() || chips.back() != p.chip) {
      chips.push_back(p.chip);
      on_chip.push_back(0);
    }
    ++on_chip.back();
  }
  instances = static_cast<int>(all_instances.size());
  servers = static_cast<int>(all_servers.size());
  whole_chips = std::all_of(on_chip.begin(), on_chip.end(),
                            [&](int n) { return n == topology.ranks_per_chip(); });
  whole_instances = static_cast<int>(chips.size()) == instances * topology.chips_per_instance();
}

std::vector<PlanPhase> gather_phases(const Topology& topology, const GroupShape& group,
                                     Algorithm algorithm, bool hbm) {
  const auto one = [&](Algorithm a) {
    return phase(topology, group, a, gather_touches(group, a), hbm);
  };
  if (algorithm != Algorithm::kRdh) return {one(algorithm)};
  std::vector<PlanPhase> phases;
  if (chips_of(group) > 1) phases.push_back(one(Algorithm::kRdh));
  if (ranks_of(group) > chips_of(group)) phases.push_back(one(Algorithm::kOnChip));
  return phases;
}

std::vector<PlanPhase> reduce_phases(const Topology& topology, const GroupShape& group,
                                     Algorithm algorithm, bool hbm) {
  const auto one = [&](Algorithm a) {
    PlanPhase p = phase(topology, group, a, reduce_touches(group, a), hbm);
    p.reduces = true;
    return p;
  };
  if (algorithm != Algorithm::kRdh) return {one(algorithm)};
  std::vector<PlanPhase> phases;
  if (ranks_of(group) > chips_of(group)) phases.push_back(one(Algorithm::kOnChip));
  if (chips_of(group) > 1) phases.push_back(one(Algorithm::kRdh));
  return phases;
}

PlanPhase exchange_phase(const Topology& topology, const GroupShape& group, Algorithm algorithm,
                         bool hbm) {
  LoadSum sum(topology);
  const double others = ranks_of(group) - 1;
  add_touches(topology, group, {2 * others, others}, hbm, sum);
  for (std::size_t a = 0; a < group.chips.size(); ++a) {
    for (std::size_t b = 0; b < group.chips.size(); ++b) {
      if (a != b) sum.send(group.chips[a], group.chips[b], group.on_chip[a] * group.on_chip[b]);
    }
  }
  if (algorithm != Algorithm::kRdh) {
    return {.algorithm = algorithm, .steps = 1, .loads = sum.loads()};
  }
  const bool on_chip = chips_of(group) == 1;
  return {.algorithm = on_chip ? Algorithm::kOnChip : algorithm,
          .steps = on_chip ? 1 : steps_of(group, algorithm) + 1,
          .loads = sum.loads()};
}

}  // namespace nkisim::models
