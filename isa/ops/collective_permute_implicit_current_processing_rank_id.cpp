// collective_permute_implicit_current_processing_rank_id: puts into a register whose data this rank
// holds after some steps round the ring.
#include <algorithm>

#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::collective_permute_implicit_current_processing_rank_id {
namespace {

enum { kDst, kIteration, kGroup, kChannel };

constexpr std::array<Param, 4> kParams = {{
    {.name = "dst", .kind = ParamKind::kRegister},
    {.name = "iteration_id", .kind = ParamKind::kIntOrRegister, .doc = "steps taken so far"},
    {.name = "replica_group", .kind = ParamKind::kGroups, .doc = kGroupDoc},
    {.name = "channel_id", .kind = ParamKind::kInt, .optional = true, .doc = "0 (absent) to 3"},
}};

void check(const Inst& inst, const Machine& /*machine*/) {
  check_groups(inst, kGroup);
  const std::int64_t channel = inst.integer(kChannel);
  if (channel < 0 || channel > 3)
    fail(Rule::channel_ids, "channel_id", std::to_string(channel), "0 to 3");
}

void eval(const Inst& inst, OpContext& ctx) {
  const CoreState& state = ctx.state();
  const auto group = group_of(inst, state.rank);
  if (group.empty()) {
    fail(Rule::replica_groups, "replica_group", "without rank " + std::to_string(state.rank),
         "a group of the rank that asks");
  }
  const std::int64_t steps = ctx.value(inst.arg(kIteration));
  if (steps < 0) fail(Rule::argument_value, "iteration_id", std::to_string(steps), "0 or more");
  const auto ring = ring_of(group, inst.integer(kChannel), state.world.ring);
  const auto n = static_cast<std::int64_t>(ring.size());
  const std::int64_t me = std::find(ring.begin(), ring.end(), state.rank) - ring.begin();
  const std::int64_t rank = ring[static_cast<std::size_t>((me + n - steps % n) % n)];
  ctx.state().set_reg(inst.arg(kDst).integer, static_cast<std::int32_t>(rank));
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "collective_permute_implicit_current_processing_rank_id",
    .doc = "Puts into a register whose data this rank holds after some steps round the ring.",
    .semantics =
        "dst = the rank iteration_id places before this one in the channel's ring over its group",
    .cost = "sequencer time of a register move (assumed)",
    .sources =
        "nki.collectives.collective_permute_implicit_current_processing_rank_id. Assumed: the ring "
        "(a setting of the run), numbers of the world",
    .engines = kAnySequencer,
    .params = kParams,
    .opcode = Opcode::kREGISTER_MOVE,
    .check = check,
    .eval = eval,
    .asks_rank = true,
    .on_sequencer = true,
};

}  // namespace nkisim::isa::ops::collective_permute_implicit_current_processing_rank_id
