#include "isa/ops/shared/collective.hpp"

namespace nkisim::isa::ops::all_to_all_v {
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
            "send_displs, recv_counts (written), with has_rdispls recv_displs; all in elements",
     .steers = false},
    {.name = "recv_counts_known",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "true: recv_counts is left alone"},
    {.name = "has_rdispls",
     .kind = ParamKind::kBool,
     .optional = true,
     .doc = "true: the metadata say where received blocks go (trn3)"},
    {.name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc},
}};

constexpr CountedParams kCounted = {kSrcs, kDsts, kGroup, kMetadata, kKnown, kDispls};

void check(const Inst& inst, const Machine& machine) {
  check_counted(inst, kCounted);
  check_priority(inst, kPriority, machine);
}

void combine(Exchange& ex) { combine_counted(ex, kCounted, false); }

}  // namespace

extern const OpSpec kSpec;
const OpSpec kSpec = {
    .name = "all_to_all_v",
    .doc = "Every rank of a group sends a block of elements of its own length to each of them.",
    .semantics =
        "block i of dst of the j-th rank, at recv_displs[i] or else i * (D / n) = the "
        "send_counts[j] elements of the i-th rank's src from send_displs[j] on; D elements of dst, "
        "n ranks; elements between blocks stay as they are; recv_counts[i] = the count",
    .cost = kCollectiveCost,
    .sources = "nki.collectives.all_to_all_v",
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

}  // namespace nkisim::isa::ops::all_to_all_v
