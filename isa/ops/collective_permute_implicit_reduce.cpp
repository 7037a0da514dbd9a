#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::collective_permute_implicit_reduce {
namespace {

enum { kSrcs0, kSrcs1, kDsts, kGroup, kOp, kChannels, kPriority };

constexpr std::array<Param, 7> kParams = {{
    {.name = "srcs0_by_channel",
     .kind = ParamKind::kInList,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "one tensor for each channel"},
    {.name = "srcs1_by_channel",
     .kind = ParamKind::kInList,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "as srcs0_by_channel"},
    {.name = "dsts_by_channel",
     .kind = ParamKind::kOutList,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = "one tensor for each channel, of its source's shape"},
    {.name = "replica_group", .kind = ParamKind::kGroups, .doc = kGroupDoc},
    {.name = "op", .kind = ParamKind::kAlu, .doc = kReduceDoc},
    {.name = "channel_ids",
     .kind = ParamKind::kIntList,
     .optional = true,
     .doc = "0, 1, ... in sequence, at most 4; [0] (absent)"},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

void check(const Inst& inst, const Machine& machine) {
  check_groups(inst, kGroup);
  check_lists(inst, kSrcs0, kDsts, {.per_channel = true});
  check_lists(inst, kSrcs1, kDsts, {.per_channel = true});
  check_channels(inst, kChannels, kSrcs0);
  check_same_shapes(inst, kSrcs0, kDsts);
  check_same_shapes(inst, kSrcs1, kDsts);
  check_reduction(inst, kOp, kSrcs0);
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) {
  pass_on(ex, kDsts, [&](std::size_t member, std::size_t channel) {
    Reduction sum(ex.inst().choice(kOp, AluOp::kAdd));
    sum.add(ex.take(member, kSrcs0, channel));
    sum.add(ex.take(member, kSrcs1, channel));
    return sum.result();
  });
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "collective_permute_implicit_reduce",
    .doc =
        "Sends the reduction of two tensors to the next rank of a ring, which the runtime chose.",
    .semantics =
        "dst of a rank = cast(src0 op src1) of the rank before it in its channel's ring over the "
        "group; floating point in FP32, integers exactly and saturating",
    .cost = kCollectiveCost,
    .sources =
        "nki.collectives.collective_permute_implicit_reduce. Assumed: the ring (a setting of the "
        "run), FP32",
    .engines = kCollectiveTriggers,
    .params = kParams,
    .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
    .check = check,
    .expand = expand_collective,
    .combine = combine,
    .state = OpSpec::State::kAlways,
    .dma = true,
};

}  // namespace nkisim::isa::ops::collective_permute_implicit_reduce
