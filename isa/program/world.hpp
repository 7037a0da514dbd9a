// Declares World, which is all ranks that run together: their number, their groups and their rings.
//
// A rank is one logical core that runs one copy of a program, with its own memory. Ranks exchange
// values through the collective instructions (isa/world/exchange.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nkisim::isa {

struct Inst;
class Program;

/// Ranks that communicate, in the order in which the program lists them.
using RankGroup = std::span<const std::int64_t>;
/// Stands behind each group of a list of groups (ParamKind::kGroups).
inline constexpr std::int64_t kGroupEnd = -1;
[[nodiscard]] std::vector<RankGroup> groups_in(const std::vector<std::int64_t>& list);

/// The order in which implicit permutes go round a group. The device's runtime chooses it, and a
/// kernel may not depend on it: run it with two to find one that does.
struct RingOrder {
  enum class Kind : std::uint8_t {
    kGroup,    // as the group lists its ranks
    kReverse,  // the other way round
    kShuffle,  // drawn by `seed`, differently for each channel
  };
  Kind kind = Kind::kGroup;
  std::uint32_t seed = 0;
};
/// "group", "reverse", "shuffle" or "shuffle:SEED"; an Error for anything else.
[[nodiscard]] RingOrder parse_ring_order(std::string_view text);
/// The ranks of a group in the order of a channel's ring: each sends to the next.
[[nodiscard]] std::vector<std::int64_t> ring_of(RankGroup group, std::int64_t channel,
                                                const RingOrder& order);

/// The facts that all ranks of a run share.
struct World {
  static constexpr int kMostRanks = 4096;
  int ranks = 1;
  RingOrder ring = {};
  /// Takes what the device's compiler and runtime refuse but has a clear meaning: any number of
  /// ranks, groups of one, kernel arguments as operands (docs/collectives.md).
  bool any_shape = false;
};

/// The group in which `rank` takes part in a collective instruction, ascending for
/// collective_permute; empty if it is in none.
[[nodiscard]] std::vector<std::int64_t> group_of(const Inst& inst, std::int64_t rank);

/// True if a collective leaves bytes of its destinations unchanged on some rank of the program's
/// world: ranks that take no part or get nothing, variable lengths. Then it does not overwrite
/// them.
[[nodiscard]] bool may_keep(const Program& program, const Inst& inst);

/// Throws Error, located at the first instruction that needs a partner, if the program has one
/// core.
void check_partners(const Program& program);

/// Throws Error as check_partners, or located at the first instruction that does not fit: a rank
/// outside the world, or (unless any_shape) what the device refuses. `cores`: of a rank.
void check_world(const Program& program, const World& world);

}  // namespace nkisim::isa
