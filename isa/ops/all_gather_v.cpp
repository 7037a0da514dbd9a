#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::all_gather_v {
namespace {

enum { kSrcs, kDsts, kGroup, kMetadata, kKnown, kDispls, kPriority };

constexpr std::array<Param, 7> kParams = {{
    {.name = "srcs",
     .kind = ParamKind::kInList,
     .spaces = Spaces{Space::kHbm},
     .dtypes = kAnyDtype,
     .doc = "one tensor, elements as they lie"},
    {.name = "dsts",
     .kind = ParamKind::kOutList,
     .spaces = Spaces{Space::kHbm},
     .dtypes = kAnyDtype,
     .doc = "one tensor, of any size that holds what is received"},
    {.name = "replica_group", .kind = ParamKind::kGroups, .doc = kGroupDoc},
    {.name = "metadata_tensor",
     .kind = ParamKind::kInOut,
     .spaces = kHbmOrSbuf,
     .dtypes = {Dtype::kUint32},
     .doc = "uint32 (rows, ranks), in SBUF (1, rows, ranks) on one partition; rows: send_counts, "
            "send_displs, recv_counts (written), with has_rdispls recv_displs; all in elements; of "
            "the send rows column 0 counts",
     .steers = false},
    {.name = "recv_counts_known",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "true: recv_counts is left alone"},
    {.name = "has_rdispls", .kind = ParamKind::kBool, .optional = true, .doc = "false"},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

constexpr CountedParams kCounted = {kSrcs, kDsts, kGroup, kMetadata, kKnown, kDispls};

void check(const Inst& inst, const Machine& machine) {
  check_counted(inst, kCounted);
  if (inst.flag(kDispls)) fail(Rule::has_rdispls, "has_rdispls", "true", "false");
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) { combine_counted(ex, kCounted, true); }

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "all_gather_v",
    .doc =
        "Every rank of a group gets a block of elements from all of them, each of its own length.",
    .semantics =
        "dst[i * (D / n) ...] = the send_counts[0] elements of the i-th rank's src from "
        "send_displs[0] on; D elements of dst, n ranks; elements between blocks stay as they are; "
        "recv_counts[i] = the count",
    .cost = kCollectiveCost,
    .sources = "nki.collectives.all_gather_v",
    .engines = kCollectiveTriggers,
    .params = kParams,
    .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
    .check = check,
    .expand = expand_collective,
    .combine = combine,
    .alike = OpSpec::Alike::kDtypes,
    .state = OpSpec::State::kAlways,
    .dma = true,
};

}  // namespace nkisim::isa::ops::all_gather_v
