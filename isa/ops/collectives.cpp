// Defines the instructions of nki.collectives (all_reduce, all_gather, ...) between ranks.
#include "isa/ops/shared/collective.hpp"

// The operations of nki.collectives: what they share is in shared/collective, and a row says the
// rest.
namespace nkisim::isa::ops::collectives {
namespace {

constexpr Spaces kHbmOnly = {Space::kHbm};

constexpr Param from(std::string_view name, Spaces spaces, std::string_view doc) {
  return {
      .name = name, .kind = ParamKind::kInList, .spaces = spaces, .dtypes = kAnyDtype, .doc = doc};
}
constexpr Param to(std::string_view name, Spaces spaces, std::string_view doc) {
  return {
      .name = name, .kind = ParamKind::kOutList, .spaces = spaces, .dtypes = kAnyDtype, .doc = doc};
}
constexpr Param dim(std::string_view doc) {
  return {.name = "collective_dim", .kind = ParamKind::kInt, .doc = doc};
}
constexpr Param flag(std::string_view name, std::string_view doc) {
  return {.name = name, .kind = ParamKind::kBool, .optional = true, .doc = doc};
}
constexpr Param metadata(std::string_view doc) {
  return {.name = "metadata_tensor",
          .kind = ParamKind::kInOut,
          .spaces = kHbmOrSbuf,
          .dtypes = {Dtype::kUint32},
          .doc = doc};
}

constexpr std::string_view kOneDoc = "one tensor, elements as they lie";
constexpr std::string_view kReceiveDoc = "one tensor, of any size that holds what is received";
constexpr std::string_view kEachDoc = "one tensor for each channel";
constexpr std::string_view kEachDstDoc = "one tensor for each channel, of its source's shape";
#define NKISIM_METADATA                                                                  \
  "uint32 (rows, ranks), in SBUF (1, rows, ranks) on one partition; rows: send_counts, " \
  "send_displs, recv_counts (written), with has_rdispls recv_displs; all in elements"

constexpr Param kSrcs = from("srcs", kHbmOrSbuf, kSrcsDoc);
constexpr Param kDsts = to("dsts", kHbmOrSbuf, kDstsDoc);
constexpr Param kCountedSrcs = from("srcs", kHbmOnly, kOneDoc);
constexpr Param kCountedDsts = to("dsts", kHbmOnly, kReceiveDoc);
constexpr Param kChannelDsts = to("dsts_by_channel", kHbmOrSbuf, kEachDstDoc);
constexpr Param kGroup = {.name = "replica_group", .kind = ParamKind::kGroups, .doc = kGroupDoc};
constexpr Param kOp = {.name = "op", .kind = ParamKind::kAlu, .doc = kReduceDoc};
constexpr Param kKnown = flag("recv_counts_known", "true: recv_counts is left alone");
constexpr Param kChannels = {.name = "channel_ids",
                             .kind = ParamKind::kIntList,
                             .optional = true,
                             .doc = "0, 1, ... in sequence, at most 4; [0] (absent)"};
constexpr Param kPriority = {
    .name = "priority", .kind = ParamKind::kInt, .optional = true, .doc = kPriorityDoc};

constexpr std::array kReduceParams = {kSrcs, kDsts, kGroup, kOp, kPriority};
constexpr std::array kGatherParams = {
    kSrcs, kDsts, kGroup, dim("0; 1 too in SBUF, where 0 is the partitions"), kPriority};
constexpr std::array kScatterParams = {kSrcs, kDsts, kGroup, dim("0"), kOp, kPriority};
constexpr std::array kToAllParams = {from("srcs", kHbmOnly, kSrcsDoc),
                                     to("dsts", kHbmOnly, kDstsDoc), kGroup, dim("0"), kPriority};
constexpr std::array kGatherVParams = {
    kCountedSrcs, kCountedDsts,
    kGroup,       metadata(NKISIM_METADATA "; of the send rows column 0 counts"),
    kKnown,       flag("has_rdispls", "false"),
    kPriority};
constexpr std::array kToAllVParams = {
    kCountedSrcs, kCountedDsts,
    kGroup,       metadata(NKISIM_METADATA),
    kKnown,       flag("has_rdispls", "true: the metadata say where received blocks go (trn3)"),
    kPriority};
#undef NKISIM_METADATA
constexpr std::array kPrepareParams = {
    kGroup,
    Param{.name = "metadata_tensor",
          .kind = ParamKind::kIn,
          .spaces = kHbmOrSbuf,
          .dtypes = {Dtype::kUint32},
          .doc = "the trigger's; valid, and left alone until then"},
    flag("has_rdispls", "the trigger's")};
constexpr std::array kPairsParams = {
    from("srcs", kHbmOnly, "one tensor"), to("dsts", kHbmOnly, "one tensor of its shape"),
    Param{.name = "source_target_pairs",
          .kind = ParamKind::kGroups,
          .doc = "pairs (source, target) of ranks, each at most once on either side; a rank in no "
                 "pair takes no part"},
    kPriority};
constexpr std::array kRingParams = {from("srcs_by_channel", kHbmOrSbuf, kEachDoc), kChannelDsts,
                                    kGroup, kChannels, kPriority};
constexpr std::array kRingReduceParams = {
    from("srcs0_by_channel", kHbmOrSbuf, kEachDoc),
    from("srcs1_by_channel", kHbmOrSbuf, "as srcs0_by_channel"),
    kChannelDsts,
    kGroup,
    kOp,
    kChannels,
    kPriority};

template <ListRules kRules, ShapeRule kShapes>
void check(const Inst& inst, const Machine& machine) {
  check_collective(inst, machine, kRules, kShapes);
}

// The nth parameter of a kind, -1 if there is none.
constexpr int place(std::span<const Param> params, ParamKind kind, int nth = 0) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].kind == kind && nth-- == 0) return static_cast<int>(i);
  }
  return -1;
}

constexpr int place(std::span<const Param> params, std::string_view name) {
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

struct Row {
  std::string_view name, doc, semantics, sources;
  std::span<const Param> params;
  void (*check)(const Inst&, const Machine&);
  void (*combine)(Exchange&);
  Collective collective;
  bool exact_shapes = false;
};

// With what all of them have.
constexpr OpSpec spec_of(const Row& row) {
  OpSpec op = {
      .name = row.name,
      .doc = row.doc,
      .semantics = row.semantics,
      .cost = kCollectiveCost,
      .sources = row.sources,
      .engines = kCollectiveTriggers,
      .params = row.params,
      .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
      .check = row.check,
      .expand = expand_collective,
      .combine = row.combine,
      .collective = row.collective,
      .state = OpSpec::State::kAlways,
      .exact_shapes = row.exact_shapes,
      .dma = true,
  };
  Collective& c = op.collective;
  c.srcs = place(op.params, ParamKind::kInList);
  c.more_srcs = place(op.params, ParamKind::kInList, 1);
  c.dsts = place(op.params, ParamKind::kOutList);
  c.groups = place(op.params, ParamKind::kGroups);
  c.reduce = place(op.params, ParamKind::kAlu);
  c.channels = place(op.params, ParamKind::kIntList);
  c.metadata = place(op.params, ParamKind::kInOut);
  c.known = place(op.params, ParamKind::kBool);
  c.displs = place(op.params, ParamKind::kBool, 1);
  c.dim = place(op.params, "collective_dim");
  c.priority = place(op.params, "priority");
  return op;
}

// The first part of an operation: its engine goes on, and the set-up goes on meanwhile.
constexpr OpSpec prepare_of(std::string_view name, std::string_view sources,
                            Collective::Kind kind) {
  return {
      .name = name,
      .doc =
          "Sets up a collective of variable lengths ahead of its data; its trigger carries it out.",
      .semantics = "nothing is moved; one trigger of the same group and metadata follows",
      .cost =
          "time of the trigger on the engine; from then on the set-up takes place meanwhile "
          "(config: collectives)",
      .sources = sources,
      .engines = kCollectiveTriggers,
      .params = kPrepareParams,
      .opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2,
      .check = [](const Inst& inst, const Machine&) { check_groups(inst, 0); },
      .expand =
          [](const Inst& inst, const Machine&, Expansion& out) {
            out.parts.push_back(
                {.opcode = Opcode::kPSEUDO_TRIGGER_COLLECTIVE_2, .unit = unit_of(inst.engine)});
          },
      .collective = {.kind = kind, .part = Collective::Part::kPrepare},
      .state = OpSpec::State::kAlways,
  };
}

constexpr std::string_view kTriggerDoc =
    "Carries out the operation that the prepare before it has set up.";

using enum Collective::Kind;

}  // namespace
}  // namespace nkisim::isa::ops::collectives

namespace nkisim::isa::ops {

namespace all_reduce {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "all_reduce",
    .doc = "Reduces tensors over the ranks of a group; every rank gets the result.",
    .semantics =
        "dst = cast(src[g0] op src[g1] op ...), g0, g1, ... the group's ranks in its order, from "
        "left to right; floating point in FP32, integers exactly and saturating",
    .sources = "nki.collectives.all_reduce. Assumed: FP32 and the order of the sum",
    .params = kReduceParams,
    .check = check<ListRules{.in_place = true}, same_shapes>,
    .combine = reduce_all,
    .collective = {.kind = kAllReduce, .same_for_all = true},
});
}  // namespace all_reduce

namespace all_gather {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "all_gather",
    .doc = "Every rank of a group gets the tensors of all of them, one behind the other.",
    .semantics =
        "dst = src[g0], src[g1], ... concatenated along collective_dim, in the group's order",
    .sources = "nki.collectives.all_gather",
    .params = kGatherParams,
    .check = check<ListRules{}, gathered_shapes>,
    .combine = gather_all,
    .collective = {.kind = kAllGather, .same_for_all = true},
    .exact_shapes = true,
});
}  // namespace all_gather

namespace reduce_scatter {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "reduce_scatter",
    .doc = "Reduces tensors over the ranks of a group; every rank gets its part of the result.",
    .semantics = "dst of the i-th rank = part i, along dimension 0, of what all_reduce gives",
    .sources = "nki.collectives.reduce_scatter. Assumed: FP32 and the order of the sum",
    .params = kScatterParams,
    .check = check<ListRules{}, scattered_shapes>,
    .combine = scatter_reduced,
    .collective = {.kind = kReduceScatter},
    .exact_shapes = true,
});
}  // namespace reduce_scatter

namespace all_to_all {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "all_to_all",
    .doc = "Every rank of a group sends one part of its tensors to each of them.",
    .semantics = "part i, along dimension 0, of dst of the j-th rank = part j of src of the i-th",
    .sources = "nki.collectives.all_to_all",
    .params = kToAllParams,
    .check = check<ListRules{}, shared_shapes>,
    .combine = exchange_parts,
    .collective = {.kind = kAllToAll, .in_sequence = true},
    .exact_shapes = true,
});
}  // namespace all_to_all

namespace all_gather_v {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "all_gather_v",
    .doc =
        "Every rank of a group gets a block of elements from all of them, each of its own length.",
    .semantics = "dst[i * (D / n) ...] = the send_counts[0] elements of the i-th rank's src from "
                 "send_displs[0] on; D elements of dst, n ranks; elements between blocks stay as "
                 "they are; recv_counts[i] = the count",
    .sources = "nki.collectives.all_gather_v",
    .params = kGatherVParams,
    .check = check<ListRules{.one = true}, counted_shapes>,
    .combine = exchange_counted,
    .collective = {.kind = kAllGather},
});
}  // namespace all_gather_v

namespace all_gather_v_prepare {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = prepare_of(
    "all_gather_v_prepare",
    "nki.collectives.all_gather_v_prepare. Assumed: what of the set-up it does", kAllGather);
}  // namespace all_gather_v_prepare

namespace all_gather_v_trigger {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "all_gather_v_trigger",
    .doc = kTriggerDoc,
    .semantics = "as all_gather_v",
    .sources = "nki.collectives.all_gather_v_trigger",
    .params = kGatherVParams,
    .check = check<ListRules{.one = true}, counted_shapes>,
    .combine = exchange_counted,
    .collective = {.kind = kAllGather, .part = Collective::Part::kTrigger},
});
}  // namespace all_gather_v_trigger

namespace all_to_all_v {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "all_to_all_v",
    .doc = "Every rank of a group sends a block of elements of its own length to each of them.",
    .semantics =
        "block i of dst of the j-th rank, at recv_displs[i] or else i * (D / n) = the "
        "send_counts[j] elements of the i-th rank's src from send_displs[j] on; D elements of dst, "
        "n ranks; elements between blocks stay as they are; recv_counts[i] = the count",
    .sources = "nki.collectives.all_to_all_v",
    .params = kToAllVParams,
    .check = check<ListRules{.one = true}, counted_shapes>,
    .combine = exchange_counted,
    .collective = {.kind = kAllToAll},
});
}  // namespace all_to_all_v

namespace all_to_all_v_prepare {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = prepare_of(
    "all_to_all_v_prepare",
    "nki.collectives.all_to_all_v_prepare. Assumed: what of the set-up it does", kAllToAll);
}  // namespace all_to_all_v_prepare

namespace all_to_all_v_trigger {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "all_to_all_v_trigger",
    .doc = kTriggerDoc,
    .semantics = "as all_to_all_v",
    .sources = "nki.collectives.all_to_all_v_trigger",
    .params = kToAllVParams,
    .check = check<ListRules{.one = true}, counted_shapes>,
    .combine = exchange_counted,
    .collective = {.kind = kAllToAll, .part = Collective::Part::kTrigger},
});
}  // namespace all_to_all_v_trigger

namespace collective_permute {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "collective_permute",
    .doc = "Sends tensors from ranks to ranks that the program names.",
    .semantics = "for each pair (s, t): dst of rank t = src of rank s; dst of a rank that is no "
                 "target stays as it is",
    .sources = "nki.collectives.collective_permute. The runtime page allows circular permutations "
               "along existing links only; any list runs here",
    .params = kPairsParams,
    .check = check<ListRules{.one = true}, same_shapes>,
    .combine = send_pairs,
    .collective = {.kind = kPermute, .pairs = true},
});
}  // namespace collective_permute

namespace collective_permute_implicit {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "collective_permute_implicit",
    .doc = "Sends tensors to the next rank of a ring, which the runtime chose, and receives from "
           "the one before.",
    .semantics = "dst of a rank = src of the rank before it in its channel's ring over the group",
    .sources =
        "nki.collectives.collective_permute_implicit. Assumed: the ring (a setting of the run)",
    .params = kRingParams,
    .check = check<ListRules{.per_channel = true}, same_shapes>,
    .combine = pass_on,
    .collective = {.kind = kPermute},
});
}  // namespace collective_permute_implicit

namespace collective_permute_implicit_reduce {
using namespace collectives;
extern const OpSpec kSpec;
constinit const OpSpec kSpec = spec_of({
    .name = "collective_permute_implicit_reduce",
    .doc =
        "Sends the reduction of two tensors to the next rank of a ring, which the runtime chose.",
    .semantics = "dst of a rank = cast(src0 op src1) of the rank before it in its channel's ring "
                 "over the group; floating point in FP32, integers exactly and saturating",
    .sources = "nki.collectives.collective_permute_implicit_reduce. Assumed: the ring (a setting "
               "of the run), FP32",
    .params = kRingReduceParams,
    .check = check<ListRules{.per_channel = true}, same_shapes>,
    .combine = pass_on,
    .collective = {.kind = kPermute},
});
}  // namespace collective_permute_implicit_reduce

}  // namespace nkisim::isa::ops
