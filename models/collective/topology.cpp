// Computes the places of ranks on chips, the routes between chips and the order of rings.
#include "models/collective/topology.hpp"

#include <algorithm>
#include <array>

#include "isa/base/error.hpp"

namespace nkisim::models {
namespace {

// Servers of one chip, by kind: its links outwards, its ports, stacks, and DMA engines by rank.
enum Kind : int {
  kRight,
  kLeft,
  kDown,
  kUp,
  kNext,      // to the same chip of the next instance of the server
  kPrevious,  //
  kPortOut,   // of a switch
  kPortIn,
  kNetworkOut,
  kNetworkIn,
  kStack,
  kEngines = kStack + 8,
  kServersPerChip = kEngines + 8,
};

constexpr std::array<std::string_view, kStack> kServerNames = {"link right",
                                                               "link left",
                                                               "link down",
                                                               "link up",
                                                               "link to the next instance",
                                                               "link to the previous instance",
                                                               "port out",
                                                               "port in",
                                                               "network out",
                                                               "network in"};

// Steps from a to b on a ring of n, backwards if negative: the shorter way, and of two as short the
// one that leaves the other to the next place, so that both directions carry as much.
int ring_steps(int a, int b, int n) {
  const int ahead = ((b - a) % n + n) % n;
  if (2 * ahead == n && a % 2 != 0) return -ahead;
  return 2 * ahead <= n ? ahead : ahead - n;
}

// Places of a ring of n that ways between the first `used` may pass: all, if one leads through the
// others.
int around(int used, int n) { return 2 * (used - 1) >= n ? n : used; }

// Chips that ways between the first `chips` may pass, also such as have no ranks: the rest of a row
// or column of an instance, of an instance, or of a server.
int passed(const TopologyConfig& c, int chips) {
  if (chips <= c.columns) return around(chips, c.columns);
  const int of_instance = c.rows * c.columns;
  if (chips <= of_instance) {
    return around((chips + c.columns - 1) / c.columns, c.rows) * c.columns;
  }
  const int instances = (chips + of_instance - 1) / of_instance, n = c.instances_per_server;
  const int left = instances % n;
  return (instances - left + (left > 0 ? around(left, n) : 0)) * of_instance;
}

}  // namespace

Topology::Topology(const TopologyConfig& config, int lnc, int ranks)
    : config_(config), lnc_(lnc), ranks_(ranks), ranks_per_chip_(0), chips_(0) {
  if (lnc < 1 || config.cores_per_chip % lnc != 0 || lnc > config.cores_per_stack) {
    isa::fail(isa::Rule::collective_model, "lnc", std::to_string(lnc),
              "a divisor of the " + std::to_string(config.cores_per_stack) + " cores of a stack");
  }
  if (ranks < 1) isa::fail(isa::Rule::rank_count, "ranks", std::to_string(ranks), "at least 1");
  ranks_per_chip_ = config.cores_per_chip / lnc;
  chips_ = (ranks + ranks_per_chip_ - 1) / ranks_per_chip_;
  if (config.wiring != Wiring::kSwitch) chips_ = passed(config, chips_);
}

Place Topology::place(int rank) const {
  Place p;
  p.chip = rank / ranks_per_chip_;
  p.instance = p.chip / chips_per_instance();
  p.server = p.instance / config_.instances_per_server;
  p.core = rank % ranks_per_chip_ * lnc_;
  p.die = p.core / config_.cores_per_die;
  p.stack = p.core / config_.cores_per_stack;
  return p;
}

Topology::At Topology::at(int chip) const {
  const int in_instance = chip % chips_per_instance();
  return {chip / chips_per_instance(), in_instance / config_.columns,
          in_instance % config_.columns};
}

int Topology::chip(const At& at) const {
  return at.instance * chips_per_instance() + at.row * config_.columns + at.column;
}

// Rows first, then columns; a chain's ends are not joined.
void Topology::within(std::vector<ServerId>& route, At from, const At& to) const {
  const bool chain = config_.wiring == Wiring::kChain;
  const auto walk = [&](int At::*axis, int size, Kind ahead, Kind back) {
    int steps = chain ? to.*axis - from.*axis : ring_steps(from.*axis, to.*axis, size);
    for (; steps != 0; steps -= steps > 0 ? 1 : -1) {
      route.push_back(chip(from) * kServersPerChip + (steps > 0 ? ahead : back));
      from.*axis = (from.*axis + (steps > 0 ? 1 : -1) + size) % size;
    }
  };
  walk(&At::column, config_.columns, kRight, kLeft);
  walk(&At::row, config_.rows, kDown, kUp);
}

// Between the instances of a server: chips of the same place are rings.
void Topology::between(std::vector<ServerId>& route, At from, const At& to) const {
  const int n = config_.instances_per_server;
  int steps = ring_steps(from.instance % n, to.instance % n, n);
  const int first = from.instance / n * n;
  for (; steps != 0; steps -= steps > 0 ? 1 : -1) {
    route.push_back(chip(from) * kServersPerChip + (steps > 0 ? kNext : kPrevious));
    from.instance = first + (from.instance - first + (steps > 0 ? 1 : -1) + n) % n;
  }
}

std::vector<ServerId> Topology::route(int from_chip, int to_chip) const {
  std::vector<ServerId> route;
  if (from_chip == to_chip) return route;
  const At to = at(to_chip);
  At from = at(from_chip);
  const int n = config_.instances_per_server;
  if (from.instance / n != to.instance / n) {
    return {from_chip * kServersPerChip + kNetworkOut, to_chip * kServersPerChip + kNetworkIn};
  }
  if (config_.wiring == Wiring::kSwitch) {
    return {from_chip * kServersPerChip + kPortOut, to_chip * kServersPerChip + kPortIn};
  }
  between(route, from, to);
  from.instance = to.instance;
  within(route, from, to);
  return route;
}

std::vector<ServerId> Topology::links(int chip) const {
  std::vector<ServerId> list;
  if (config_.wiring == Wiring::kSwitch) return {chip * kServersPerChip + kPortOut};
  const At at_chip = at(chip);
  const bool ends = config_.wiring == Wiring::kChain;
  if (config_.columns > 1) {
    if (!ends || at_chip.column + 1 < config_.columns)
      list.push_back(chip * kServersPerChip + kRight);
    if (!ends || at_chip.column > 0) list.push_back(chip * kServersPerChip + kLeft);
  }
  if (config_.rows > 1) {
    if (!ends || at_chip.row + 1 < config_.rows) list.push_back(chip * kServersPerChip + kDown);
    if (!ends || at_chip.row > 0) list.push_back(chip * kServersPerChip + kUp);
  }
  return list;
}

ServerId Topology::stack(int rank) const {
  const Place p = place(rank);
  return p.chip * kServersPerChip + kStack + p.stack;
}

ServerId Topology::engines(int rank) const {
  return place(rank).chip * kServersPerChip + kEngines + rank % ranks_per_chip_;
}

int Topology::servers() const { return chips_ * kServersPerChip; }

double Topology::rate(int kind, double stack, double engines) const {
  if (kind >= kEngines) return engines * lnc_;
  if (kind >= kStack) return stack;
  if (kind >= kNetworkOut) return config_.network_bytes_per_ns;
  if (kind == kNext || kind == kPrevious) return config_.server_link_bytes_per_ns;
  return config_.link_bytes_per_ns;
}

std::vector<double> Topology::rates(double stack, double engines) const {
  std::vector<double> list;
  list.reserve(static_cast<std::size_t>(servers()));
  for (int s = 0; s < servers(); ++s) list.push_back(rate(s % kServersPerChip, stack, engines));
  return list;
}

std::string Topology::server_name(ServerId server) const {
  const int kind = server % kServersPerChip;
  const std::string chip = "chip " + std::to_string(server / kServersPerChip) + " ";
  if (kind >= kEngines) {
    return "rank " + std::to_string(server / kServersPerChip * ranks_per_chip_ + kind - kEngines) +
           " DMA engines";
  }
  if (kind >= kStack) return chip + "HBM " + std::to_string(kind - kStack);
  return chip + std::string(kServerNames.at(static_cast<std::size_t>(kind)));
}

// Along the rows, every second one backwards, is a path of neighbours through any rectangle.
std::vector<int> Topology::ring(std::span<const int> group, int channel) const {
  std::vector<int> order(group.begin(), group.end());
  const auto position = [this](int rank) {
    const At a = at(place(rank).chip);
    const int column = a.row % 2 == 0 ? a.column : config_.columns - 1 - a.column;
    return std::array<int, 4>{a.instance, a.row, column, rank};
  };
  std::sort(order.begin(), order.end(), [&](int a, int b) { return position(a) < position(b); });
  if (channel % 2 != 0) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace nkisim::models
