#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::reduce_scatter {
namespace {

enum { kSrcs, kDsts, kGroup, kDim, kOp, kPriority };

constexpr std::array<Param, 6> kParams = {{
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
    {.name = "collective_dim", .kind = ParamKind::kInt, .doc = "0"},
    {.name = "op", .kind = ParamKind::kAlu, .doc = kReduceDoc},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

void check(const Inst& inst, const Machine& machine) {
  check_groups(inst, kGroup);
  check_lists(inst, kSrcs, kDsts, {});
  check_dim(inst, kDim, kSrcs, false);
  check_reduction(inst, kOp, kSrcs);
  const std::int64_t ranks = group_size(inst, kGroup);
  for (std::size_t t = 0; t < inst.arg(kSrcs).tensors->size(); ++t) {
    const TensorRef &src = *inst.arg(kSrcs).tensors->at(t), &dst = *inst.arg(kDsts).tensors->at(t);
    if (src.shape() == scaled(dst, 0, ranks)) continue;
    fail(Rule::operand_shape, "dsts", describe(dst),
         "one part in " + std::to_string(ranks) + " of srcs, " + describe(src) +
             ", along dimension 0,");
  }
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) {
  const std::size_t tensors = ex.inst().arg(kSrcs).tensors->size();
  for (std::size_t t = 0; t < tensors; ++t) {
    const Parcel result = reduced(ex, kSrcs, kOp, t);
    const std::int64_t count = result.elements() / static_cast<std::int64_t>(ex.size());
    for (std::size_t m = 0; m < ex.size(); ++m) {
      ex.give(m, kDsts, t, part_of(result, static_cast<std::int64_t>(m) * count, count));
    }
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "reduce_scatter",
    .doc = "Reduces tensors over the ranks of a group; every rank gets its part of the result.",
    .semantics = "dst of the i-th rank = part i, along dimension 0, of what all_reduce gives",
    .cost = kCollectiveCost,
    .sources = "nki.collectives.reduce_scatter. Assumed: FP32 and the order of the sum",
    .engines = kCollectiveTriggers,
    .params = kParams,
    .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
    .check = check,
    .expand = expand_collective,
    .combine = combine,
    .state = OpSpec::State::kAlways,
    .dma = true,
};

}  // namespace nkisim::isa::ops::reduce_scatter
