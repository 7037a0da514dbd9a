#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::collective_permute {
namespace {

enum { kSrcs, kDsts, kPairs, kPriority };

constexpr std::array<Param, 4> kParams = {{
    {.name = "srcs",
     .kind = ParamKind::kInList,
     .spaces = Spaces{Space::kHbm},
     .dtypes = kAnyDtype,
     .doc = "one tensor"},
    {.name = "dsts",
     .kind = ParamKind::kOutList,
     .spaces = Spaces{Space::kHbm},
     .dtypes = kAnyDtype,
     .doc = "one tensor of its shape"},
    {.name = "source_target_pairs",
     .kind = ParamKind::kGroups,
     .doc = "pairs (source, target) of ranks, each at most once on either side; a rank in no pair "
            "takes no part"},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

void check(const Inst& inst, const Machine& machine) {
  check_pairs(inst, kPairs);
  check_lists(inst, kSrcs, kDsts, {.one = true});
  check_same_shapes(inst, kSrcs, kDsts);
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) {
  std::vector<Parcel> sources;
  const auto pairs = groups_in(ex.inst().list(kPairs));
  for (const RankGroup pair : pairs) sources.push_back(ex.take(ex.position(pair[0]), kSrcs));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    ex.give(ex.position(pairs[i][1]), kDsts, 0, sources[i]);
  }
}

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "collective_permute",
    .doc = "Sends tensors from ranks to ranks that the program names.",
    .semantics =
        "for each pair (s, t): dst of rank t = src of rank s; dst of a rank that is no target "
        "stays as it is",
    .cost = kCollectiveCost,
    .sources =
        "nki.collectives.collective_permute. The runtime page allows circular permutations along "
        "existing links only; any list runs here",
    .engines = kCollectiveTriggers,
    .params = kParams,
    .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
    .check = check,
    .expand = expand_collective,
    .combine = combine,
    .state = OpSpec::State::kAlways,
    .dma = true,
};

}  // namespace nkisim::isa::ops::collective_permute
