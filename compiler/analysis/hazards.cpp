#include "compiler/analysis/hazards.hpp"

#include <utility>

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
  add_arena(machine.sbuf_partition_bytes, kHazardPitch);
  add_arena(machine.psum_partition_bytes, kHazardPitch);
}

std::uint32_t Hazards::add_arena(std::int64_t bytes, std::int64_t pitch) {
  const auto buckets = static_cast<std::uint32_t>(buckets_for(bytes, pitch));
  arenas_.push_back({pitch, static_cast<std::uint32_t>(buckets_.size()), buckets});
  buckets_.resize(buckets_.size() + buckets);
  return static_cast<std::uint32_t>(arenas_.size() - 1);
}

std::uint32_t Hazards::arena_of(const isa::TensorRef& ref) {
  if (ref.on_chip() && (placed_.empty() || placed_[ref.tensor])) {
    return ref.space == isa::Space::kSbuf ? 0 : 1;
  }
  if (ref.tensor >= tensor_arena_.size()) tensor_arena_.resize(program_.tensors().size());
  std::uint32_t& arena = tensor_arena_[ref.tensor];
  if (arena == 0) {
    const std::int64_t bytes = program_.tensor(ref).extent_bytes();
    arena = add_arena(bytes, std::max(kHazardPitch, bytes / kHazardBuckets + 1));
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
  const Arena arena = arenas_[access.arena];
  const isa::Footprint& bytes = access.bytes;
  const isa::BucketRange range = arena.range(bytes);
  for (std::size_t b = range.from; b <= range.to; ++b) {
    Entry entry{bytes.first, bytes.last, bytes.partition, bytes.partition_end, kNone, number};
    if (!bytes.dense()) {
      if (free_gaps_.empty()) {
        free_gaps_.push_back(static_cast<std::uint32_t>(gaps_.size()));
        gaps_.emplace_back();
      }
      entry.gaps = free_gaps_.back();
      free_gaps_.pop_back();
      gaps_[entry.gaps] = bytes;
    }
    Bucket& bucket = buckets_[arena.bucket + b];
    if (access.write) {
      append(bucket.writes, entry);
    } else {
      insert_read(bucket, entry);
    }
  }
}

// Behind the one that reads the same bytes, if that is one of the last few: a loop that reads the
// same again and again costs its writes no look at each turn.
void Hazards::insert_read(Bucket& bucket, const Entry& entry) {
  if (entry.gaps != kNone) {
    append(bucket.reads, entry);
    return;
  }
  for (const std::uint32_t head : bucket.recent) {
    if (head == kNone) continue;
    const Entry& e = entries_[head];
    if (e.first == entry.first && e.last == entry.last && e.partition == entry.partition &&
        e.partition_end == entry.partition_end) {
      const std::uint32_t at = keep(entry);
      const std::uint32_t before = entries_[head].more == kNone ? head : entries_[head].newest;
      entries_[before].more = at;
      entries_[head].newest = at;
      return;
    }
  }
  bucket.recent[bucket.oldest] = append(bucket.reads, entry);
  bucket.oldest = (bucket.oldest + 1) % bucket.recent.size();
}

std::uint32_t Hazards::append(List& list, const Entry& entry) {
  const std::uint32_t at = keep(entry);
  (list.last == kNone ? list.first : entries_[list.last].next) = at;
  list.last = at;
  return at;
}

std::uint32_t Hazards::keep(const Entry& entry) {
  const std::uint32_t at = free_;
  if (at == kNone) {
    entries_.push_back(entry);
    return static_cast<std::uint32_t>(entries_.size() - 1);
  }
  free_ = std::exchange(entries_[at], entry).next;
  return at;
}

// With those that read the same bytes.
void Hazards::drop(std::uint32_t entry) {
  while (entry != kNone) {
    Entry& e = entries_[entry];
    if (e.gaps != kNone) free_gaps_.push_back(e.gaps);
    e.next = std::exchange(free_, entry);
    entry = e.more;
  }
}

isa::Footprint Hazards::footprint(const Entry& e) const {
  if (e.gaps != kNone) return gaps_[e.gaps];
  isa::Footprint f;
  f.first = e.first;
  f.last = e.last;
  f.run = e.last - e.first;
  f.partition = e.partition;
  f.partition_end = e.partition_end;
  return f;
}

bool Hazards::overlap(const Entry& e, const isa::Footprint& bytes) const {
  if (e.partition >= bytes.partition_end || bytes.partition >= e.partition_end) return false;
  if (e.first >= bytes.last || bytes.first >= e.last) return false;
  if (e.gaps == kNone && bytes.dense()) return true;
  return isa::may_overlap(footprint(e), bytes);
}

}  // namespace nkisim::compiler
