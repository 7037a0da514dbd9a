#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::all_reduce {
namespace {

enum { kSrcs, kDsts, kGroup, kOp, kPriority };

constexpr std::array<Param, 5> kParams = {{
    {.name = "srcs",
     .kind = ParamKind::kInList,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = kSrcsDoc},
    {.name = "dsts",
     .kind = ParamKind::kOutList,
     .spaces = kHbmOrSbuf,
     .dtypes = kAnyDtype,
     .doc = kDstsDoc},
    {.name = "replica_group", .kind = ParamKind::kGroups, .doc = kGroupDoc},
    {.name = "op", .kind = ParamKind::kAlu, .doc = kReduceDoc},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

void check(const Inst& inst, const Machine& machine) {
  check_groups(inst, kGroup);
  check_lists(inst, kSrcs, kDsts, {.in_place = true});
  check_same_shapes(inst, kSrcs, kDsts);
  check_reduction(inst, kOp, kSrcs);
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) {
  const std::size_t tensors = ex.inst().arg(kSrcs).tensors->size();
  for (std::size_t t = 0; t < tensors; ++t) {
    const Parcel result = reduced(ex, kSrcs, kOp, t);
    for (std::size_t m = 0; m < ex.size(); ++m) ex.give(m, kDsts, t, result);
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "all_reduce",
    .doc = "Reduces tensors over the ranks of a group; every rank gets the result.",
    .semantics =
        "dst = cast(src[g0] op src[g1] op ...), g0, g1, ... the group's ranks in its order, from "
        "left to "
        "right; floating point in FP32, integers exactly and saturating",
    .cost = kCollectiveCost,
    .sources = "nki.collectives.all_reduce. Assumed: FP32 and the order of the sum",
    .engines = kCollectiveTriggers,
    .params = kParams,
    .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
    .check = check,
    .expand = expand_collective,
    .combine = combine,
    .state = OpSpec::State::kAlways,
    .dma = true,
};

}  // namespace nkisim::isa::ops::all_reduce
