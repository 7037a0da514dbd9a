#include "compiler/analysis/hazards.hpp"

namespace nkisim::compiler {
namespace {

constexpr std::int64_t kHazardPitch = 2048;
constexpr std::int64_t kHazardBuckets = 64;

std::int64_t buckets_for(std::int64_t bytes, std::int64_t pitch) {
  return std::max<std::int64_t>(1, (bytes + pitch - 1) / pitch);
}

}  // namespace

Hazards::Hazards(const isa::Program& program, const std::vector<bool>& placed)
    : program_(program), placed_(placed) {
  const isa::Machine& machine = program.machine();
  for (const std::int64_t bytes : {machine.sbuf_partition_bytes, machine.psum_partition_bytes}) {
    arenas_.push_back({kHazardPitch, std::vector<Bucket>(static_cast<std::size_t>(
                                         buckets_for(bytes, kHazardPitch)))});
  }
}

std::uint32_t Hazards::arena_of(const isa::TensorRef& ref) {
  if (ref.on_chip() && (placed_.empty() || placed_[ref.tensor])) {
    return ref.space == isa::Space::kSbuf ? 0 : 1;
  }
  if (ref.tensor >= tensor_arena_.size()) tensor_arena_.resize(program_.tensors().size());
  std::uint32_t& arena = tensor_arena_[ref.tensor];
  if (arena == 0) {
    arena = static_cast<std::uint32_t>(arenas_.size());
    const std::int64_t bytes = program_.tensor(ref).extent_bytes();
    const std::int64_t pitch = std::max(kHazardPitch, bytes / kHazardBuckets + 1);
    arenas_.push_back(
        {pitch, std::vector<Bucket>(static_cast<std::size_t>(buckets_for(bytes, pitch)))});
  }
  return arena;
}

void Hazards::collect(const isa::Inst& inst) {
  accesses_.clear();
  isa::for_each_tensor(inst, [&](const isa::TensorRef& ref, const isa::Param&, bool write) {
    if (!ref.on_chip() && !program_.tensor(ref).written) return;
    accesses_.push_back({isa::static_footprint(ref, program_), arena_of(ref), write});
  });
}

void Hazards::note(std::uint32_t producer, bool reads, std::vector<Edge>& edges) {
  if (producer >= edge_of_.size()) edge_of_.resize(producer + std::size_t{1});
  const std::uint32_t at = edge_of_[producer];
  if (at < edges.size() && edges[at].producer == producer) {
    edges[at].reads |= reads;
    return;
  }
  edge_of_[producer] = static_cast<std::uint32_t>(edges.size());
  edges.push_back({producer, reads});
}

void Hazards::insert(const Access& access, std::uint32_t number) {
  Arena& arena = arenas_[access.arena];
  const isa::BucketRange range = isa::bucket_range(access.bytes, arena.pitch, arena.buckets.size());
  for (std::size_t b = range.from; b <= range.to; ++b) {
    Bucket& bucket = arena.buckets[b];
    (access.write ? bucket.writes : bucket.reads).push_back({access.bytes, number});
  }
}

}  // namespace nkisim::compiler
