// Shared by the instructions of nki.collectives, at which the ranks of a group meet.
#pragma once

#include "isa/ops/shared/dma.hpp"
#include "isa/world/exchange.hpp"

namespace nkisim::isa {

/// Engines whose sequencer may trigger a collective; the default is assumed.
inline constexpr std::array<EngineRule, 5> kCollectiveTriggers = {
    {{Engine::kGpSimd}, {Engine::kSync}, {Engine::kTensor}, {Engine::kVector}, {Engine::kScalar}}};

inline constexpr std::string_view kSrcsDoc =
    "one tensor, or several in HBM, which go together (coalesced)";
inline constexpr std::string_view kDstsDoc = "as many as srcs, in the same memory";
inline constexpr std::string_view kGroupDoc =
    "lists of ranks that communicate, without a rank in two of them; a rank in none takes no part";
inline constexpr std::string_view kReduceDoc = "add, minimum or maximum";
inline constexpr std::string_view kCollectiveCost =
    "time of the trigger on the engine; the operation itself takes place beside it, once every "
    "rank "
    "of the group has come (config: collectives)";

/// Groups without a rank twice; pairs have two ranks and no target twice.
void check_groups(const Inst& inst, int param);
void check_pairs(const Inst& inst, int param);
/// As many sources as destinations, all in HBM or all in SBUF, several only in HBM; of one dtype,
/// not empty, at fixed addresses; no destination overlaps a source (but may be it, with
/// `in_place`).
struct ListRules {
  bool in_place = false;
  bool one = false;          // exactly one tensor
  bool per_channel = false;  // one tensor for each channel
};
void check_lists(const Inst& inst, int srcs, int dsts, ListRules rules);
/// dst has the shape of src, for all of them.
void check_same_shapes(const Inst& inst, int srcs, int dsts);
/// add, minimum or maximum of numbers.
void check_reduction(const Inst& inst, int op, int srcs);
/// 0 to n-1, at most 4, as many as there are tensors; absent: [0].
void check_channels(const Inst& inst, int channels, int srcs);
/// Size of the groups, which must be equal.
[[nodiscard]] std::int64_t group_size(const Inst& inst, int param);
/// 0; 1 too on tiles of two dimensions in SBUF, with `columns`.
void check_dim(const Inst& inst, int dim, int srcs, bool columns);
/// The dimension's size of an operand: its rows or its columns.
[[nodiscard]] std::vector<std::int64_t> scaled(const TensorRef& ref, int dim, std::int64_t times);

/// The trigger, and what is to be done.
void expand_collective(const Inst& inst, const Machine& machine, Expansion& out);

/// What every member gave as tensor `t` of `srcs`, in the group's order.
[[nodiscard]] std::vector<Parcel> taken(Exchange& exchange, int srcs, std::size_t t);
/// That reduced from left to right by the operator of parameter `op`.
[[nodiscard]] Parcel reduced(Exchange& exchange, int srcs, int op, std::size_t t);

/// Implicit permutes: every member gets what `sent` gives for the one before it in a channel's
/// ring.
void pass_on(Exchange& exchange, int dsts,
             const std::function<Parcel(std::size_t member, std::size_t channel)>& sent);

/// How variable-size operations find their blocks (all_gather_v, all_to_all_v).
struct CountedParams {
  int srcs, dsts, group, metadata, known, displs;
};
void check_counted(const Inst& inst, const CountedParams& params);
/// all_to_all_v; with `gather` every rank sends its one block to all of them.
void combine_counted(Exchange& exchange, const CountedParams& params, bool gather);

}  // namespace nkisim::isa
