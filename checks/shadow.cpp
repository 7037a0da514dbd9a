// Implements the race check's shadow memory, which finds earlier accesses to the same bytes.
//
// An arena stands for one memory of a core, or for one tensor. It is cut into buckets of some
// bytes. Each bucket lists the accesses to it, so that a new access finds those it may overlap.
#include "checks/shadow.hpp"

#include <algorithm>

namespace nkisim::checks {
namespace {

constexpr std::int64_t kPitch = 2048, kMostBuckets = 128;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

// On chip all tensors of a space share one arena per core, so that those at the same address meet.
Shadow::Arena& Shadow::find_arena(const isa::TensorRef& ref) {
  const isa::Tensor& tensor = program_.tensor(ref);
  const bool placed = ref.on_chip() && !program_.virtual_addresses();
  const std::uint64_t key = placed
                                ? 1U + 2U * tensor.core + (ref.space == isa::Space::kPsum ? 1U : 0U)
                                : (std::uint64_t{1} << 32U) + ref.tensor;
  const auto [at, fresh] = arenas_.try_emplace(key);
  if (fresh) {
    std::int64_t bytes = tensor.address + tensor.extent_bytes();
    if (!ref.on_chip()) bytes = tensor.extent_bytes();
    if (placed) {
      bytes = ref.space == isa::Space::kSbuf ? program_.machine().sbuf_partition_bytes
                                             : program_.machine().psum_partition_bytes;
    }
    at->second.pitch = placed ? kPitch : std::max(kPitch, ceil_div(bytes, kMostBuckets));
    at->second.buckets.resize(
        static_cast<std::size_t>(std::max<std::int64_t>(1, ceil_div(bytes, at->second.pitch))));
  }
  return at->second;
}

void Shadow::release(Record* record) {
  if (--record->references == 0) records_.give_back(*record);
}

void Shadow::insert(const Access& access) {
  Record* r = &records_.take();
  Arena& arena = this->arena(*access.ref);
  const auto range = isa::bucket_range(access.bytes, arena.pitch, arena.buckets.size());
  *r = {.access = access, .references = static_cast<int>(range.to - range.from + 1)};
  for (std::size_t b = range.from; b <= range.to; ++b) arena.buckets[b].push_back(r);
}

}  // namespace nkisim::checks
