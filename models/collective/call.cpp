// Describes a collective instruction for the timing model: its kind, ranks, bytes and pairs.
#include "models/collective/call.hpp"

#include <algorithm>

#include "isa/program/op_spec.hpp"

namespace nkisim::models {

static_assert(static_cast<int>(isa::Collective::Kind::kAllReduce) ==
              static_cast<int>(CollectiveKind::kAllReduce) + 1);
static_assert(static_cast<int>(isa::Collective::Kind::kPermute) ==
              static_cast<int>(CollectiveKind::kPermute) + 1);

// A barrier is no instruction's, and no instruction without one comes here.
CollectiveKind kind_of(isa::Op op) {
  return static_cast<CollectiveKind>(static_cast<int>(isa::spec(op).collective.kind) - 1);
}

namespace {

using Pairs = std::vector<std::pair<int, int>>;

// The pairs of sender and receiver, as positions in the group.
Pairs pairs_of(const isa::Inst& inst, const std::vector<std::int64_t>& group, int channels,
               const isa::World& world) {
  const auto position = [&](std::int64_t rank) {
    return static_cast<int>(std::find(group.begin(), group.end(), rank) - group.begin());
  };
  Pairs pairs;
  const isa::Collective& op = isa::spec(inst).collective;
  if (op.pairs) {
    for (const isa::RankGroup pair : isa::groups_in(inst.list(op.groups))) {
      pairs.emplace_back(position(pair[0]), position(pair[1]));
    }
    return pairs;
  }
  for (int channel = 0; channel < channels; ++channel) {
    const auto ring = isa::ring_of(group, channel, world.ring);
    for (std::size_t i = 0; i < ring.size(); ++i) {
      pairs.emplace_back(position(ring[i]), position(ring[(i + 1) % ring.size()]));
    }
  }
  return pairs;
}

}  // namespace

CollectiveRequest request_of(const isa::Inst& inst, const isa::CollectiveWork& work,
                             std::size_t cores, const std::vector<std::int64_t>& group,
                             const isa::World& world) {
  CollectiveRequest request{.kind = kind_of(inst.op), .dtype = work.dtype, .memory = work.space};
  for (const std::int64_t r : group) request.ranks.push_back(static_cast<int>(r));
  // Tiles in SBUF are each core's own; in HBM the cores of a rank name the same tensors.
  const bool own = work.space != isa::Space::kHbm;
  const std::int64_t sources = isa::spec(inst).collective.more_srcs >= 0 ? 2 : 1;
  request.bytes = work.src_bytes / sources * static_cast<std::int64_t>(own ? cores : 1);
  const int priority = isa::param_index(isa::spec(inst), "priority");
  if (priority >= 0) request.priority = static_cast<int>(inst.integer(priority));
  if (request.kind == CollectiveKind::kPermute) {
    const int channels = std::max(1, work.tensors);
    request.bytes /= channels;
    request.pairs = pairs_of(inst, group, channels, world);
  }
  return request;
}

}  // namespace nkisim::models
