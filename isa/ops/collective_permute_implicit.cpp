#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::collective_permute_implicit {
namespace {

enum { kSrcs, kDsts, kGroup, kChannels, kPriority };

constexpr std::array<Param, 5> kParams = {{
    {.name = "srcs_by_channel",
     .kind = ParamKind::kInList,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "one tensor for each channel"},
    {.name = "dsts_by_channel",
     .kind = ParamKind::kOutList,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "one tensor for each channel, of its source's shape"},
    {.name = "replica_group", .kind = ParamKind::kGroups, .doc = kGroupDoc},
    {.name = "channel_ids",
     .kind = ParamKind::kIntList,
     .optional = true,
     .doc = "0, 1, ... in sequence, at most 4; [0] (absent)"},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

void check(const Inst& inst, const Machine& machine) {
  check_groups(inst, kGroup);
  check_lists(inst, kSrcs, kDsts, {.per_channel = true});
  check_channels(inst, kChannels, kSrcs);
  check_same_shapes(inst, kSrcs, kDsts);
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) {
  pass_on(ex, kDsts,
          [&](std::size_t member, std::size_t channel) { return ex.take(member, kSrcs, channel); });
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "collective_permute_implicit",
    .doc =
        "Sends tensors to the next rank of a ring, which the runtime chose, and receives from the "
        "one before.",
    .semantics = "dst of a rank = src of the rank before it in its channel's ring over the group",
    .cost = kCollectiveCost,
    .sources =
        "nki.collectives.collective_permute_implicit. Assumed: the ring (a setting of the run)",
    .engines = kCollectiveTriggers,
    .params = kParams,
    .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
    .check = check,
    .expand = expand_collective,
    .combine = combine,
    .state = OpSpec::State::kAlways,
    .dma = true,
};

}  // namespace nkisim::isa::ops::collective_permute_implicit
