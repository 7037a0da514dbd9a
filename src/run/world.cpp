// Runs several ranks, and simulates only one of those that do the same.

#include "src/run/world.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "isa/host/host.hpp"
#include "src/log/log.hpp"

namespace nkisim {
namespace {

// True if a program asks for its own rank.
bool asks_rank(const isa::Program& program) {
  return std::any_of(program.insts().begin(), program.insts().end(),
                     [](const isa::Inst& inst) { return isa::spec(inst).asks_rank; });
}

// True if the program's times depend on no value: no register or length comes from memory.
// Addresses from memory may: they are taken to reach the whole tensor, and the shape decides a
// transfer's time.
bool time_without_values(const isa::Program& program) {
  return std::none_of(program.insts().begin(), program.insts().end(), [](const isa::Inst& inst) {
    return isa::spec(inst).loads_register || isa::spec(inst).collective.counts();
  });
}

// True if equal inputs give every rank of the world equal values: its only collectives give all
// ranks of a group the same, and every rank is in a group of the same size.
bool same_for_all(const isa::Program& program, int ranks) {
  for (const isa::Inst& inst : program.insts()) {
    const isa::OpSpec& op = isa::spec(inst);
    if (op.combine == nullptr) continue;
    if (!op.collective.same_for_all) return false;
    const auto groups = isa::groups_in(inst.list(op.collective.groups));
    std::size_t members = 0;
    for (const isa::RankGroup group : groups) {
      members += group.size();
      if (group.size() != groups.front().size()) return false;
    }
    if (members != static_cast<std::size_t>(ranks)) return false;
  }
  return true;
}

// The results that ranks of a world may share.
struct Folding {
  bool time = false;    // one rank's time is every rank's
  bool values = false;  // one rank's values are
};

Folding folding_of(std::span<const RankInput> ranks) {
  const models::RunOptions& options = ranks.front().options;
  const isa::Program& program = *ranks.front().program;
  const bool one_program = std::all_of(ranks.begin(), ranks.end(),
                                       [&](const RankInput& r) { return r.program == &program; });
  const bool random = options.conditions.stochastic_rounding.has_value();
  if (!options.fold || ranks.size() < 2 || !one_program || asks_rank(program) || random) return {};
  const bool same_inputs = std::all_of(ranks.begin(), ranks.end(), [&](const RankInput& r) {
    return r.inputs != 0 && r.inputs == ranks.front().inputs;
  });
  const bool values = same_inputs && same_for_all(program, options.world.ranks);
  return {time_without_values(program), values};
}

isa::InterpretOptions interpret_options(const models::RunOptions& sim) {
  isa::InterpretOptions options;
  options.conditions = sim.conditions;
  if (sim.progress) {
    options.progress = [&sim](std::uint64_t n) { return sim.progress(n, 0); };
  }
  return options;
}

// Values of all ranks, or of the first for all of them. False if progress asked to stop.
bool interpret(std::span<const RankInput> ranks, bool folded, WorldResult& out) {
  bool stopped = false;
  const auto noting = [&](const RankInput& rank) {
    isa::InterpretOptions each = interpret_options(rank.options);
    if (!each.progress) return each;
    each.progress = [&stopped, ask = each.progress](std::uint64_t n) {
      stopped = !ask(n);
      return !stopped;
    };
    return each;
  };
  std::uint64_t count = 0;
  const isa::Shard& shard = ranks.front().options.shard;
  const bool one_runs = folded || ranks.size() == 1;
  if (one_runs && !shard.owns(0)) return true;
  if (one_runs) {
    isa::InterpretOptions one = noting(ranks.front());
    one.world = ranks.front().options.world;
    one.lockstep = ranks.size() > 1;
    count = isa::interpret(*ranks.front().program, *ranks.front().memory, one);
  } else {
    std::vector<isa::RankRun> runs;
    for (const RankInput& rank : ranks) {
      runs.push_back({rank.program, rank.memory, noting(rank)});
    }
    count = isa::interpret_world(runs, ranks.front().options.world, shard);
  }
  std::size_t own = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (shard.owns(static_cast<std::int64_t>(r))) ++own;
  }
  for (SimResult& r : out.ranks) {
    r.instructions = count / (one_runs ? 1 : own);
    r.partial = r.partial || stopped;
  }
  return !stopped;
}

// The ranks that are simulated, and who watches them for the log.
struct Setups {
  std::vector<models::RankSetup> ranks;
  std::vector<log::Watched> watched;
};

Setups setups(std::span<const RankInput> ranks, bool timing_only, std::size_t count) {
  Setups made;
  std::vector<models::RankSetup>& out = made.ranks;
  for (std::size_t r = 0; r < count; ++r) {
    made.watched.emplace_back(
        ranks[r].observe ? ranks[r].observe() : std::vector<models::Observer*>(),
        ranks.size() > 1 ? static_cast<int>(r) : -1);
    models::RankSetup setup{.program = ranks[r].program,
                            .memory = timing_only ? nullptr : ranks[r].memory,
                            .observers = made.watched.back().list(),
                            .options = ranks[r].options};
    setup.options.rank = static_cast<int>(r);
    out.push_back(std::move(setup));
  }
  for (std::size_t r = count; r < ranks.size(); ++r) {
    out[r % count].twins.push_back(static_cast<int>(r));
  }
  return made;
}

// Logs the run of a world: which results its ranks share.
void say_world(std::size_t ranks, std::size_t timed, bool one_value) {
  if (ranks == 1 || !log::on(log::Category::kWorld, log::Level::kInfo)) return;
  std::string text = std::to_string(ranks) + " ranks";
  if (timed != 0) text += ", " + std::to_string(timed) + " of them in time";
  if (one_value) text += ", values of one for all";
  log::say(log::Category::kWorld, log::Level::kInfo, text);
}

void check_shards(std::span<const RankInput> ranks, const models::Config& config,
                  const isa::Shard& shard) {
  if (shard.alone()) return;
  const auto share =
      static_cast<std::size_t>(models::ranks_per_stack(config, ranks.front().program->cores()));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (shard.owner.at(r) == shard.owner[r / share * share]) continue;
    isa::fail(isa::Rule::rank_programs_differ, "the shard of rank " + std::to_string(r),
              std::to_string(shard.owner[r]), "that of the ranks on its HBM stack");
  }
}

// Simulates ranks in time. What so many small things leave free between others that stay goes back
// to the host, or a process that runs worlds again and again would grow for its first hundred runs.
std::vector<models::RunResult> simulate(const Setups& all, const models::Config& config,
                                        const models::RunOptions& options) {
  std::vector<models::RunResult> results =
      models::run_world(all.ranks, config, options.world, options.shard);
  constexpr std::size_t kMany = 8;
  if (all.ranks.size() >= kMany) isa::host::give_back_freed_memory();
  return results;
}

void keep(WorldResult& out, const std::vector<models::RunResult>& results) {
  for (std::size_t r = 0; r < out.ranks.size(); ++r) {
    const models::RunResult& result = results[r % results.size()];
    out.ranks[r] = {result.end, result.instructions, result.stopped};
  }
}

}  // namespace

WorldResult run_world(std::span<const RankInput> ranks, const models::Config& config) {
  if (ranks.empty()) isa::fail(isa::Rule::rank_count, "ranks", "0", "at least 1");
  const models::RunOptions& options = ranks.front().options;
  std::set<const isa::Program*> programs;
  for (const RankInput& rank : ranks) {
    if (!programs.insert(rank.program).second) continue;
    isa::check_world(*rank.program, options.world);
    if (rank.program->cores() != ranks.front().program->cores()) {
      isa::fail(isa::Rule::rank_programs_differ, "a rank's program",
                "for " + std::to_string(rank.program->cores()) + " cores",
                std::to_string(ranks.front().program->cores()) + ", as the first rank's");
    }
    check_config(*rank.program, config);
  }
  check_shards(ranks, config, options.shard);
  WorldResult out;
  out.ranks.resize(ranks.size());
  out.timed_as.resize(ranks.size());
  std::iota(out.timed_as.begin(), out.timed_as.end(), 0);
  out.values_of = out.timed_as;
  const Folding folding = folding_of(ranks);
  const bool timing_only = ranks.front().memory == nullptr;
  if (folding.values) std::fill(out.values_of.begin(), out.values_of.end(), 0);
  if (!options.timed) {
    say_world(ranks.size(), 0, folding.values);
    interpret(ranks, folding.values, out);
    return out;
  }
  // Ranks of one HBM stack share its rate: the first stack's stand for all others'.
  const auto share =
      static_cast<std::size_t>(models::ranks_per_stack(config, ranks.front().program->cores()));
  if (folding.time && (ranks.size() % share == 0 || ranks.size() < share)) {
    try {
      const std::size_t count = std::min(share, ranks.size());
      say_world(ranks.size(), count, folding.values);
      keep(out, models::run_world(setups(ranks, true, count).ranks, config, options.world));
      for (std::size_t r = 0; r < ranks.size(); ++r) out.timed_as[r] = static_cast<int>(r % count);
      if (timing_only || out.ranks.front().partial) return out;
      // Values decide nothing about time: they come from the interpreter.
      const std::vector<SimResult> timed = out.ranks;
      if (interpret(ranks, folding.values, out)) out.ranks = timed;
      return out;
    } catch (const models::RanksDiffer&) {
      log::say(log::Category::kWorld, log::Level::kInfo, "the ranks' places make a difference");
    }
  }
  std::iota(out.timed_as.begin(), out.timed_as.end(), 0);
  std::iota(out.values_of.begin(), out.values_of.end(), 0);
  say_world(ranks.size(), ranks.size(), false);
  keep(out, simulate(setups(ranks, timing_only, ranks.size()), config, options));
  return out;
}

}  // namespace nkisim
