// Checks the groups of ranks that run together, and computes the rings of their chips.

#include "isa/program/world.hpp"

#include <algorithm>
#include <charconv>
#include <set>

#include "isa/program/program.hpp"

namespace nkisim::isa {
namespace {

constexpr std::string_view kShuffle = "shuffle:";
constexpr int kMostSteady = 32;  // of more ranks than these, a world has a multiple of them

std::uint64_t next_random(std::uint64_t& state) {  // splitmix64
  std::uint64_t z = state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

std::string text_of(RankGroup group) {
  std::string text = "[";
  for (const std::int64_t rank : group) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(rank);
  }
  return text + "]";
}

int groups_param(const OpSpec& op) {
  const auto is_groups = [](const Param& param) { return param.kind == ParamKind::kGroups; };
  const auto found = std::find_if(op.params.begin(), op.params.end(), is_groups);
  return found == op.params.end() ? -1 : static_cast<int>(found - op.params.begin());
}

bool sequential(RankGroup group) {
  for (std::size_t i = 1; i < group.size(); ++i) {
    if (group[i] != group[i - 1] + 1) return false;
  }
  return true;
}

// The number of ranks on a chip.
int ranks_of_chip(const Program& program) {
  return std::max(1, program.machine().cores_per_chip / program.cores());
}

std::size_t chips_of(const Program& program, RankGroup group) {
  std::set<std::int64_t> chips;
  for (const std::int64_t rank : group) chips.insert(rank / ranks_of_chip(program));
  return chips.size();
}

void check_arguments(const Program& program, const Inst& inst) {
  for_each_tensor(inst, [&](const TensorRef& ref, const Param& param, bool) {
    const Tensor& t = program.tensor(ref);
    const bool given = t.role == TensorRole::kInput || t.role == TensorRole::kInputOutput ||
                       t.role == TensorRole::kConstant;
    if (ref.on_chip() || (!given && t.role != TensorRole::kOutput)) return;
    fail(
        Rule::collective_of_argument, param.name,
        "tensor " + t.name + ", an " + (given ? "input" : "output") + " of the kernel",
        "a tensor of the kernel's own in shared_hbm (stage it with dma_copy; the device's compiler "
        "refuses it: NCC_INLA001)");
  });
}

std::int64_t elements_of(const Inst& inst, int param) {
  std::int64_t sum = 0;
  for (const TensorRef* ref : *inst.arg(param).tensors) sum += ref->elements();
  return sum;
}

// An all_to_all_v of ranks of one chip or of one index, before there were NeuronSwitches.
void check_without_switch(const Program& program, const Inst& inst, RankGroup group) {
  const Collective& op = spec(inst).collective;
  const int node = ranks_of_chip(program) * program.machine().chips_per_instance;
  const bool one_chip = chips_of(program, group) == 1;
  const bool same_index = std::all_of(group.begin(), group.end(), [&](std::int64_t rank) {
    return rank % node == group[0] % node;
  });
  if (!one_chip && !same_index) {
    fail(Rule::replica_groups, "replica_group", text_of(group),
         "ranks of one chip, or of the same index in different instances (" + std::to_string(node) +
             " ranks apart), on " + std::string(program.machine().target));
  }
  if (inst.flag(op.displs)) {
    fail(Rule::has_rdispls, "has_rdispls", "true", "false without a NeuronSwitch (trn3)");
  }
  const std::int64_t sent = elements_of(inst, op.srcs), capacity = elements_of(inst, op.dsts);
  const auto ranks = static_cast<std::int64_t>(group.size());
  if (one_chip && capacity != ranks * sent) {
    fail(Rule::operand_size, "dsts", std::to_string(capacity) + " elements",
         std::to_string(ranks * sent) + ", the " + std::to_string(ranks) +
             " ranks of the chip times the elements of srcs,");
  }
}

void check_counted(const Program& program, const Inst& inst, RankGroup group, bool gather) {
  const int per_chip = ranks_of_chip(program);
  const bool whole_chips = sequential(group) && group[0] % per_chip == 0 &&
                           static_cast<int>(group.size()) % per_chip == 0;
  if (program.cores() != 2) {
    fail(Rule::replica_groups, "replica_group", "used by ranks of one core",
         "ranks of two cores (LNC 2)");
  }
  if (gather) {
    if (whole_chips && static_cast<int>(group.size()) == per_chip) return;
    fail(Rule::replica_groups, "replica_group", text_of(group),
         "the " + std::to_string(per_chip) + " ranks of one chip");
  }
  if (program.machine().generation >= Generation::kV4) {
    if (whole_chips && chips_of(program, group) > 1) return;
    fail(Rule::replica_groups, "replica_group", text_of(group),
         "all ranks of more than one chip, in sequence");
  }
  check_without_switch(program, inst, group);
}

// Refuses calls that have a clear meaning but that the device refuses (docs/collectives.md has the
// sources).
void check_device(const Program& program, const Inst& inst, RankGroup group) {
  const Collective& op = spec(inst).collective;
  if (group.size() < 2)
    fail(Rule::replica_groups, "replica_group", "a group of one rank", "at least two ranks");
  if (op.counts()) {
    check_counted(program, inst, group, op.kind == Collective::Kind::kAllGather);
  }
  if (op.in_sequence && (group.size() == 2 || !sequential(group))) {
    fail(Rule::replica_groups, "replica_group", text_of(group), "more than two ranks in sequence");
  }
  const int channels = op.channels;
  if (channels >= 0 && inst.has(channels) && inst.list(channels).size() > 2) {
    const auto chips = static_cast<std::size_t>(program.machine().chips_per_instance);
    if (chips_of(program, group) < chips) {
      fail(Rule::channel_ids, "channel_ids",
           std::to_string(inst.list(channels).size()) + " channels",
           "at most 2 unless the group has ranks of all " + std::to_string(chips) +
               " chips of an instance");
    }
  }
}

void check_call(const Program& program, const Inst& inst, const World& world) {
  const OpSpec& op = spec(inst);
  const IntList& list = inst.list(groups_param(op));
  for (const std::int64_t rank : list) {
    if (rank >= world.ranks) {
      fail(Rule::replica_groups, op.params[static_cast<std::size_t>(groups_param(op))].name,
           "rank " + std::to_string(rank),
           "a rank below " + std::to_string(world.ranks) + ", the number of ranks of the run,");
    }
  }
  if (world.any_shape || world.ranks == 1 || op.combine == nullptr) return;
  check_arguments(program, inst);
  if (op.collective.pairs) return;
  for (const RankGroup group : groups_in(list)) check_device(program, inst, group);
}

}  // namespace

std::vector<RankGroup> groups_in(const std::vector<std::int64_t>& list) {
  std::vector<RankGroup> groups;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] != kGroupEnd) continue;
    groups.push_back(RankGroup(list).subspan(begin, i - begin));
    begin = i + 1;
  }
  return groups;
}

RingOrder parse_ring_order(std::string_view text) {
  if (text == "group") return {};
  if (text == "reverse") return {RingOrder::Kind::kReverse, 0};
  if (text == "shuffle") return {RingOrder::Kind::kShuffle, 0};
  if (text.substr(0, kShuffle.size()) == kShuffle) {
    const std::string_view number = text.substr(kShuffle.size());
    std::uint32_t seed = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), seed);
    if (error == std::errc() && end == number.data() + number.size() && !number.empty()) {
      return {RingOrder::Kind::kShuffle, seed};
    }
  }
  fail(Rule::ring_order, "ring order", std::string(text),
       "group, reverse, shuffle or shuffle:SEED");
}

std::vector<std::int64_t> ring_of(RankGroup group, std::int64_t channel, const RingOrder& order) {
  std::vector<std::int64_t> ring(group.begin(), group.end());
  if (order.kind == RingOrder::Kind::kReverse) std::reverse(ring.begin(), ring.end());
  if (order.kind != RingOrder::Kind::kShuffle) return ring;
  std::uint64_t state = (std::uint64_t{order.seed} << 8U) + static_cast<std::uint64_t>(channel);
  for (std::size_t i = ring.size(); i > 1; --i) {
    std::swap(ring[i - 1], ring[next_random(state) % i]);
  }
  return ring;
}

std::vector<std::int64_t> group_of(const Inst& inst, std::int64_t rank) {
  const OpSpec& op = spec(inst);
  const int param = groups_param(op);
  const IntList& list = inst.list(param);
  if (op.collective.pairs) {
    std::set<std::int64_t> ranks(list.begin(), list.end());
    ranks.erase(kGroupEnd);
    if (ranks.count(rank) == 0) return {};
    return {ranks.begin(), ranks.end()};
  }
  for (const RankGroup group : groups_in(list)) {
    if (std::find(group.begin(), group.end(), rank) != group.end()) {
      return {group.begin(), group.end()};
    }
  }
  return {};
}

bool may_keep(const Program& program, const Inst& inst) {
  const OpSpec& op = spec(inst);
  if (op.combine == nullptr) return false;
  if (op.collective.counts()) return true;
  const bool pairs = op.collective.pairs;
  std::set<std::int64_t> receivers;
  for (const RankGroup group : groups_in(inst.list(groups_param(op)))) {
    receivers.insert(pairs ? group.end() - 1 : group.begin(), group.end());
  }
  return program.ranks() == 1 || static_cast<int>(receivers.size()) < program.ranks();
}

void check_partners(const Program& program) {
  if (program.cores() > 1) return;
  for (const Inst& inst : program.insts()) {
    if (!spec(inst).needs_partner) continue;
    const std::string name(spec(inst).name);
    Error e =
        Error::about(Rule::core_deadlock, name, "in a program of one core", "two cores (LNC 2)");
    e.at(name, inst.loc);
    program.locate(e);
    throw e;
  }
}

void check_world(const Program& program, const World& world) {
  check_partners(program);
  if (const int most = cores_of_rank(program.machine()); program.cores() > most) {
    fail(Rule::launch_grid, "the program",
         "for " + std::to_string(program.cores()) + " cores on " +
             std::string(program.machine().target),
         most == 1 ? "one core, or trn2 or trn3," : "at most " + std::to_string(most));
  }
  if (world.ranks < 1 || world.ranks > World::kMostRanks) {
    fail(Rule::rank_count, "ranks", std::to_string(world.ranks),
         "1 to " + std::to_string(World::kMostRanks));
  }
  const int n = world.ranks;
  const bool usual = n <= 16 ? (n & (n - 1)) == 0 : n % kMostSteady == 0;
  if (!usual && !world.any_shape) {
    fail(Rule::rank_count, "ranks", std::to_string(n),
         "1, 2, 4, 8, 16 or a multiple of 32, as the device's runtime does");
  }
  for (const Inst& inst : program.insts()) {
    if (groups_param(spec(inst)) < 0) continue;
    try {
      check_call(program, inst, world);
    } catch (Error& e) {
      e.at(spec(inst).name, inst.loc);
      program.locate(e);
      throw;
    }
  }
}

}  // namespace nkisim::isa
