// Declares the checks, the shapes and the result values that all of nki.collectives share.
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
    "time of the trigger on the engine; the operation itself takes place meanwhile, once every "
    "rank "
    "of the group has come (config: collectives)";

/// Rules for its lists of tensors. There are as many sources as destinations, all in HBM or all in
/// SBUF, several only in HBM. They have one dtype, are not empty and lie at fixed addresses. No
/// destination overlaps a source (but may be it, with `in_place`).
struct ListRules {
  bool in_place = false;
  bool one = false;          // exactly one tensor
  bool per_channel = false;  // one tensor for each channel
};
/// Judges the shapes of an operation's tensors.
using ShapeRule = void (*)(const Inst&, const Collective&);
void same_shapes(const Inst& inst, const Collective& op);
void gathered_shapes(const Inst& inst, const Collective& op);
void scattered_shapes(const Inst& inst, const Collective& op);
void shared_shapes(const Inst& inst, const Collective& op);
void counted_shapes(const Inst& inst, const Collective& op);

/// Groups without a rank twice.
void check_groups(const Inst& inst, int param);
/// Groups or pairs, lists of tensors, channels, shapes, operator, priority.
void check_collective(const Inst& inst, const Machine& machine, ListRules rules, ShapeRule shapes);

/// The trigger, and what is to be done.
void expand_collective(const Inst& inst, const Machine& machine, Expansion& out);

/// Computes the results of each member (OpSpec::combine).
void reduce_all(Exchange& exchange);
void gather_all(Exchange& exchange);
void scatter_reduced(Exchange& exchange);
void exchange_parts(Exchange& exchange);
void exchange_counted(Exchange& exchange);
void send_pairs(Exchange& exchange);
/// Every member gets what the one before it in a channel's ring sends.
void pass_on(Exchange& exchange);

}  // namespace nkisim::isa
