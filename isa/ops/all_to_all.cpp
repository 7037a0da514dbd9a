#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::all_to_all {
namespace {

enum { kSrcs, kDsts, kGroup, kDim, kPriority };

constexpr std::array<Param, 5> kParams = {{
    {.name = "srcs",
     .kind = ParamKind::kInList,
     .spaces = Spaces{Space::kHbm},
     .dtypes = kAnyDtype,
     .doc = kSrcsDoc},
    {.name = "dsts",
     .kind = ParamKind::kOutList,
     .spaces = Spaces{Space::kHbm},
     .dtypes = kAnyDtype,
     .doc = kDstsDoc},
    {.name = "replica_group", .kind = ParamKind::kGroups, .doc = kGroupDoc},
    {.name = "collective_dim", .kind = ParamKind::kInt, .doc = "0"},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

void check(const Inst& inst, const Machine& machine) {
  check_groups(inst, kGroup);
  check_lists(inst, kSrcs, kDsts, {});
  check_dim(inst, kDim, kSrcs, false);
  check_same_shapes(inst, kSrcs, kDsts);
  const std::int64_t ranks = group_size(inst, kGroup);
  for (const TensorRef* src : *inst.arg(kSrcs).tensors) {
    if (src->shape().empty() || src->shape().front() % ranks == 0) continue;
    fail(Rule::operand_size, "srcs", describe(*src),
         "a dimension 0 that " + std::to_string(ranks) + " ranks can share equally");
  }
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) {
  const std::size_t tensors = ex.inst().arg(kSrcs).tensors->size();
  for (std::size_t t = 0; t < tensors; ++t) {
    const std::vector<Parcel> parts = taken(ex, kSrcs, t);
    const std::int64_t count = parts.front().elements() / static_cast<std::int64_t>(ex.size());
    for (std::size_t to = 0; to < ex.size(); ++to) {
      Parcel received;
      for (const Parcel& part : parts) {
        append(received, part_of(part, static_cast<std::int64_t>(to) * count, count));
      }
      ex.give(to, kDsts, t, received);
    }
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "all_to_all",
    .doc = "Every rank of a group sends one part of its tensors to each of them.",
    .semantics = "part i, along dimension 0, of dst of the j-th rank = part j of src of the i-th",
    .cost = kCollectiveCost,
    .sources = "nki.collectives.all_to_all",
    .engines = kCollectiveTriggers,
    .params = kParams,
    .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
    .check = check,
    .expand = expand_collective,
    .combine = combine,
    .state = OpSpec::State::kAlways,
    .dma = true,
};

}  // namespace nkisim::isa::ops::all_to_all
