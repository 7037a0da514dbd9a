#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::all_gather {
namespace {

enum { kSrcs, kDsts, kGroup, kDim, kPriority };

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
    {.name = "collective_dim",
     .kind = ParamKind::kInt,
     .doc = "0; 1 too in SBUF, where 0 is the partitions"},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

void check(const Inst& inst, const Machine& machine) {
  check_groups(inst, kGroup);
  check_lists(inst, kSrcs, kDsts, {});
  check_dim(inst, kDim, kSrcs, true);
  const auto dim = static_cast<int>(inst.integer(kDim));
  const std::int64_t ranks = group_size(inst, kGroup);
  for (std::size_t t = 0; t < inst.arg(kSrcs).tensors->size(); ++t) {
    const TensorRef &src = *inst.arg(kSrcs).tensors->at(t), &dst = *inst.arg(kDsts).tensors->at(t);
    if (dst.shape() == scaled(src, dim, ranks)) continue;
    fail(Rule::operand_shape, "dsts", describe(dst),
         std::to_string(ranks) + " times srcs, " + describe(src) + ", along dimension " +
             std::to_string(dim) + ",");
  }
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) {
  const std::size_t tensors = ex.inst().arg(kSrcs).tensors->size();
  for (std::size_t t = 0; t < tensors; ++t) {
    std::vector<Parcel> parts = taken(ex, kSrcs, t);
    Parcel all;
    if (ex.inst().integer(kDim) == 1) {
      all = side_by_side(parts);
    } else {
      for (const Parcel& part : parts) append(all, part);
    }
    parts.clear();
    for (std::size_t m = 0; m < ex.size(); ++m) ex.give(m, kDsts, t, all);
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "all_gather",
    .doc = "Every rank of a group gets the tensors of all of them, one behind the other.",
    .semantics =
        "dst = src[g0], src[g1], ... concatenated along collective_dim, in the group's order",
    .cost = kCollectiveCost,
    .sources = "nki.collectives.all_gather",
    .engines = kCollectiveTriggers,
    .params = kParams,
    .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
    .check = check,
    .expand = expand_collective,
    .combine = combine,
    .state = OpSpec::State::kAlways,
    .dma = true,
};

}  // namespace nkisim::isa::ops::all_gather
